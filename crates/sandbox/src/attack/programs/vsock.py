import socket

refused("AF_VSOCK", lambda: socket.socket(40, socket.SOCK_STREAM), errno.EACCES)
