for path in [
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches",
    "/proc/sysrq-trigger", "/proc/kcore", "/proc/kallsyms", "/proc/self/uid_map",
    "/proc/self/gid_map", "/proc/self/setgroups", "/proc/1/oom_score_adj", "/proc/timer_list",
    "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/debug", "/sys/power/state",
]:
    def attempt():
        file = os.open(path, os.O_WRONLY)
        return os.write(file, b"0 0 1\n")

    refused(path, attempt, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)


def protect_from_oom():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")


refused("oom_score_adj -1000", protect_from_oom, errno.EACCES, errno.EPERM)
