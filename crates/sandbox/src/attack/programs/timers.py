"""Timers and queued signals are kernel memory of a user, not of a process."""
libc_timers = 0
identifier = ctypes.c_int()
try:
    while libc_timers < 200_000:
        syscall("timer_create", 1, 0, ctypes.byref(identifier))
        libc_timers += 1
except OSError as error:
    held(f"{error!r} after {libc_timers} timers")
else:
    broken(f"made {libc_timers} timers")
