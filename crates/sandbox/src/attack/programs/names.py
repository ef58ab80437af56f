"""Name resolution opens sockets inside the C library."""
import socket

try:
    found = socket.getaddrinfo("example.com", 80)
except socket.gaierror as error:
    held(f"getaddrinfo: {error}")
else:
    broken(f"resolved a name: {found[:1]}")
