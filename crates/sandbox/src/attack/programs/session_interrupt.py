"""Swallows the interrupt that a time-out sends."""
tried("swallowing KeyboardInterrupt")
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
