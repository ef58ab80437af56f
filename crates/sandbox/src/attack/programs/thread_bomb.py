import threading

barrier = threading.Event()
started = 0
try:
    while started < 5_000:
        threading.Thread(target=barrier.wait, daemon=True).start()
        started += 1
except RuntimeError as error:
    held(f"{error} after {started} threads")
    os._exit(0)
broken(f"has {started} threads")
