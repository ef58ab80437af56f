"""TIOCSTI types into the terminal that the server was started from; TIOCLINUX likewise."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
for request in (TIOCSTI, TIOCLINUX, TIOCSTI | 1 << 32, TIOCLINUX | 1 << 32):
    for descriptor in (0, 1, 2):
        refused(f"ioctl {request:#x} on {descriptor}",
                lambda: syscall("ioctl", descriptor, request, b"x"), errno.ENOTTY)
refused("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR), errno.ENOENT, errno.ENXIO)
