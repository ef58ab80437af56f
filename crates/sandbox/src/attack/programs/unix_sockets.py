"""Sockets of the host's services, by path and by abstract name; programs for the kernel."""
import socket

for path in ["/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket",
             "/run/systemd/private", "\0/tmp/.X11-unix/X0", "\0/org/kernel/linux/storage/multipathd"]:
    with socket.socket(socket.AF_UNIX) as client:
        refused(f"connect {path!r}", lambda: client.connect(path), errno.ENOENT,
                errno.ECONNREFUSED)
left, right = socket.socketpair()
SO_ATTACH_FILTER = 26
refused("SO_ATTACH_FILTER",
        lambda: left.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(16)), errno.EPERM)
