"""Process 1 of the namespace belongs to the supervisor."""
# Where everything runs under one user, the first process may be asked things; it must neither end
# nor show its insides.
for name in ("mem", "environ", "maps", "root", "cwd", "fd", "exe"):
    path = f"/proc/1/{name}"
    if name in ("root", "cwd", "exe"):
        attempt = lambda: os.readlink(path)
    elif name == "fd":
        attempt = lambda: os.listdir(path)
    else:
        attempt = lambda: read(path)
    refused(path, attempt, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESRCH)
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGKILL):
    try:
        os.kill(1, number)
    except PermissionError:
        held(f"signal {number} to process 1: EPERM")
    else:
        os.kill(1, 0)
        held(f"signal {number} to process 1 had no effect")
state = next((it for it in open("/proc/1/status") if it.startswith("State")), "State: hidden")
if "T" in state.split()[1] or "Z" in state.split()[1]:
    broken(f"process 1 is in {state}")
