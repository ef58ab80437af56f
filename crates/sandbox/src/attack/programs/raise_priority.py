SCHED_FIFO, SCHED_RR, SCHED_DEADLINE = 1, 2, 6
refused("nice -5", lambda: os.nice(-5), errno.EPERM, errno.EACCES)
refused("setpriority -20", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20), errno.EPERM,
        errno.EACCES)
for policy in (SCHED_FIFO, SCHED_RR):
    refused(f"scheduling policy {policy}",
            lambda: os.sched_setscheduler(0, policy, os.sched_param(1)), errno.EPERM)
refused("ioprio_set", lambda: syscall("ioprio_set", 1, 0, 1 << 13), errno.EPERM)
os.nice(5)
refused("back from nice 5", lambda: os.setpriority(os.PRIO_PROCESS, 0, 0), errno.EPERM,
        errno.EACCES)
refused("mlockall", lambda: libc("mlockall", 3), errno.EPERM, errno.ENOMEM)
