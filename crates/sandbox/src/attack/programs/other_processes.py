"""Every process id is asked for, and /proc is read."""
mine = {os.getpid()}
listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
strangers = listed - mine - {1}
for pid in range(2, 40_000):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        continue
    except PermissionError:
        pass
    if pid not in mine:
        strangers.add(pid)
if strangers:
    broken(f"sees processes {sorted(strangers)[:10]}")
else:
    held(f"sees only {sorted(listed)} of its own namespace")
