"""Several of these run at once and look for each other."""
import socket
import time

begin = time.monotonic_ns()
finds = []
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    listener.bind("\0rocstar-attack-neighbours")
except OSError as error:
    finds.append(f"abstract socket of another call: {error!r}")
for path in ("/tmp/neighbours", "/dev/shm/neighbours-shared"):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        finds.append(f"file of another call: {path}")
    except OSError:
        pass
until = time.monotonic() + 0.4
while time.monotonic() < until:
    others = {int(it) for it in os.listdir("/proc") if it.isdigit()} - {1, os.getpid()}
    if others:
        finds.append(f"processes of another call: {others}")
        break
    time.sleep(0.01)
if finds:
    broken(f"sees its neighbours: {finds}")
else:
    held("sees no neighbour")
say("WINDOW", f"{begin} {time.monotonic_ns()}")
