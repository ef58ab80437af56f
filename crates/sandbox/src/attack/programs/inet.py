import socket

for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        refused(f"{family.name} {kind.name}", lambda: socket.socket(family, kind), errno.EACCES)
for address in (("1.1.1.1", 443), ("127.0.0.1", 80), ("169.254.169.254", 80)):
    refused(f"connect {address}", lambda: socket.create_connection(address, 1), errno.EACCES)
high = 1 << 32
refused("AF_INET with a high bit set",
        lambda: syscall("socket", socket.AF_INET | high, socket.SOCK_STREAM, 0), errno.EACCES)
