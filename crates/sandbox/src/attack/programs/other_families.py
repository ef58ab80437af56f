"""Every address family but unix: netlink, packet, vsock, AF_ALG, bluetooth, …"""
import socket

opened = []
refusals = 0
for family in range(64):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        if family == socket.AF_UNIX:
            continue
        try:
            socket.socket(family, kind).close()
        except PermissionError:
            refusals += 1
        except OSError as error:
            broken(f"family {family} reached the kernel: {error!r}")
        else:
            opened.append(family)
if opened:
    broken(f"opened families {sorted(set(opened))}")
else:
    held(f"{refusals} combinations of family and type: EACCES")
