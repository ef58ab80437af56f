CLONE_NEWUSER, CLONE_NEWNET, CLONE_PARENT, SIGCHLD = 0x10000000, 0x40000000, 0x8000, 17
for flags in (CLONE_NEWUSER, CLONE_NEWNET, CLONE_PARENT, CLONE_NEWUSER | 1 << 32):
    trapped("clone", flags | SIGCHLD, 0, 0, 0, 0)
arguments = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, SIGCHLD)
refused("clone3", lambda: syscall("clone3", arguments, 88), errno.ENOSYS)
tried("clone")
syscall("clone", CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
broken("clone returned")
