"""System V IPC and message queues live in the kernel and outlive their maker."""
for name, arguments in {
    "shmget": (0x1234, 4096, 0o1600), "semget": (0x1234, 1, 0o1600), "msgget": (0x1234, 0o1600),
    "mq_open": (b"planted", 0o102, 0o600, 0), "memfd_secret": (0,), "io_setup": (1000, 0),
    "vmsplice": (0, 0, 0, 0), "remap_file_pages": (0, 0, 0, 0, 0),
}.items():
    refused(name, lambda: syscall(name, *arguments), errno.ENOSYS)
