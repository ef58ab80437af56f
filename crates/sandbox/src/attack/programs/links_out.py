"""Links in the private directory that point outside it lead to the program's own view."""
os.symlink(os.path.join("/proc/1", "root", "etc/shadow"), "/tmp/shadow")
os.symlink("../../../../../../etc/shadow", "/tmp/dots")
for path in ("/tmp/shadow", "/tmp/dots"):
    refused(path, lambda: read(path), errno.ENOENT, errno.EACCES)
refused("hard link to a library", lambda: os.link(os.__file__, "/tmp/library"), errno.EXDEV,
        errno.EPERM)
root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
for _ in range(50):
    root = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
refused("50 times .. from /", lambda: os.open("etc/shadow", os.O_RDONLY, dir_fd=root), errno.ENOENT)
