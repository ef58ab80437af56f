signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for what, attempt in {
    "truncate": lambda: os.truncate(os.open("/tmp/a", os.O_CREAT | os.O_RDWR), 1 << 40),
    "write at the end": lambda: os.pwrite(os.open("/tmp/b", os.O_CREAT | os.O_RDWR), b"x", 1 << 40),
    "allocate": lambda: os.posix_fallocate(os.open("/tmp/c", os.O_CREAT | os.O_RDWR), 0, 1 << 30),
}.items():
    refused(what, attempt, errno.EFBIG, errno.ENOSPC)
