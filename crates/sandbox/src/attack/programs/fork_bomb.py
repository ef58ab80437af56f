"""Forks until refused, and leaves the children running."""
children = 0
while children < 5_000:
    try:
        pid = os.fork()
    except BlockingIOError:
        held(f"EAGAIN after {children} children")
        os._exit(0)
    if pid == 0:
        signal.pause()
    children += 1
broken(f"has {children} children")
