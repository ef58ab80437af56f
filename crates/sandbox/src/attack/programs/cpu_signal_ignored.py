tried("ignoring the CPU limit's warning")
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
