"""Each process stays under the limit of one; all together do not."""
CHILDREN, MIB_EACH, LIMIT_MIB = 12, 80, 128
tried(f"{MIB_EACH} MiB in each of {CHILDREN} processes")
reader, writer = os.pipe()
for _ in range(CHILDREN):
    if os.fork() == 0:
        hoard = bytearray(MIB_EACH << 20)
        for at in range(0, len(hoard), 4096):
            hoard[at] = 1
        os.write(writer, b"+")
        signal.pause()
os.set_blocking(reader, False)
filled = killed = 0
while filled + killed < CHILDREN:
    try:
        filled += len(os.read(reader, CHILDREN))
    except BlockingIOError:
        os.sched_yield()
    pid, status = os.waitpid(-1, os.WNOHANG)
    killed += pid > 0
if filled * MIB_EACH > 2 * LIMIT_MIB and killed < CHILDREN // 2:
    broken(f"{filled} processes hold {filled * MIB_EACH} MiB")
else:
    held(f"{killed} of {CHILDREN} processes were killed")
