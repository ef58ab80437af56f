for _ in range(20):
    if os.fork() == 0:
        os._exit(0)
for _ in range(5):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
held("leaves 20 zombies and 5 stopped children")
