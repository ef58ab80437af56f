import threading

ALLOWED = 5  # The limit is 6 with the first thread.
threading.stack_size(1 << 16)
barrier = threading.Event()
started = 0
try:
    while started < 5_000:
        threading.Thread(target=barrier.wait, daemon=True).start()
        started += 1
except RuntimeError as error:
    if started == ALLOWED:
        held(f"{error} after {started} threads")
        os._exit(0)
broken(f"has {started} threads")
