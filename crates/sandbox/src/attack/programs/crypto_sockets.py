"""AF_ALG gives unprivileged programs the kernel's crypto code."""
import socket

refused("AF_ALG", lambda: socket.socket(38, socket.SOCK_SEQPACKET), errno.EACCES)
