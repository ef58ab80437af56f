"""Double fork, new session, streams kept open: outlives everything that only kills a group."""
import socket

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0rocstar-attack-daemon")
        listener.listen()
        held("the daemon listens")
        while True:
            listener.accept()
    os._exit(0)
os.wait()
# Waits until the daemon is up, so that it is there to be killed.
while True:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect("\0rocstar-attack-daemon")
        except ConnectionRefusedError:
            os.sched_yield()
        else:
            break
