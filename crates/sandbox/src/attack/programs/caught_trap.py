"""A program may catch SIGSYS and go on; the call was not made even so."""
caught = []
signal.signal(signal.SIGSYS, lambda *_: caught.append(1))
before = set(os.listdir("/proc/self/fd"))
parameters = ctypes.create_string_buffer(120)
for _ in range(3):
    try:
        syscall("io_uring_setup", 4, parameters)
    except OSError:
        pass
gained = set(os.listdir("/proc/self/fd")) - before
if not caught:
    broken("io_uring_setup did not trap")
elif gained:
    broken(f"gained descriptors {gained}")
else:
    held(f"caught {len(caught)} traps and gained nothing")
