"""kill(-1): everything that this user may signal, but in this namespace only."""
tried("kill(-1, SIGKILL) and killpg(0, SIGKILL)")
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    held("kill(-1) found nobody")
except PermissionError:
    held("kill(-1): EPERM")
os.killpg(0, signal.SIGKILL)
broken("survived its own SIGKILL")
