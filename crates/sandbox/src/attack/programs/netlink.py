"""Routing and interface control."""
import socket

NETLINK_ROUTE, NETLINK_NETFILTER, NETLINK_SOCK_DIAG = 0, 12, 4
for protocol in (NETLINK_ROUTE, NETLINK_NETFILTER, NETLINK_SOCK_DIAG):
    refused(f"AF_NETLINK {protocol}",
            lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol), errno.EACCES)
