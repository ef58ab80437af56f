import socket

with socket.socket(socket.AF_UNIX) as client:
    refused("the daemon of an earlier call",
            lambda: client.connect("\0rocstar-attack-daemon"), errno.ECONNREFUSED)
