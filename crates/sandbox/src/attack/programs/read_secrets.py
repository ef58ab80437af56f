"""Secrets lie in /etc, in homes and in the state of services. A home may be there as the way to
the interpreter, if that is installed in one, and then it holds nothing else."""
for path in [
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/var/log",
    "/var/lib", "/var/spool", "/run/secrets", "/boot", "/tmp/../etc/shadow",
]:
    refused(path, lambda: os.stat(path), errno.ENOENT)
first = os.path.join("/proc/1", "root", "etc/shadow")
refused("the root of process 1", lambda: os.stat(first), errno.EACCES, errno.ENOENT)
PYTHON = {os.path.realpath(it) for it in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
PYTHON |= {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}


def leads_to_python(path):
    return any(it == path or it.startswith(path + "/") for it in PYTHON)


for home in ("/root", "/home", "/srv", "/opt", "/mnt", "/media", "/var", "/work"):
    folders = [home]
    while folders:
        folder = folders.pop()
        if folder in PYTHON:
            continue
        try:
            entries = os.listdir(folder)
        except FileNotFoundError:
            held(f"{folder} is not there")
            continue
        except PermissionError:
            held(f"{folder} can't be listed")
            continue
        for path in (f"{folder}/{entry}" for entry in entries):
            if leads_to_python(path):
                folders.append(path)
            elif os.path.realpath(path) == "/tmp":
                held(f"{path} is the private directory")
            else:
                broken(f"{path} is there")
        held(f"{folder} holds nothing but the way to Python")
