for path in [
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/root", "/home", "/var/log",
    "/var/lib", "/run/secrets", "/boot", "/proc/1/root/etc/shadow", "/tmp/../etc/shadow",
]:
    refused(path, lambda path=path: os.stat(path), errno.ENOENT, errno.EACCES)
try:
    read("/etc/shadow")
except FileNotFoundError:
    held("/etc/shadow is not in the file tree at all")
else:
    broken("/etc/shadow is there")
