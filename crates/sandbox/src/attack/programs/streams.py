"""The streams' ends in this process lead nowhere else."""
for descriptor in (0, 1, 2):
    target = os.readlink(f"/proc/self/fd/{descriptor}")
    if target.startswith(("pipe:", "socket:", "/dev/null", "/memfd:")):
        held(f"{descriptor} is {target}")
    else:
        broken(f"{descriptor} is {target}")
refused("a terminal", lambda: os.ttyname(0), errno.ENOTTY, errno.EINVAL)
