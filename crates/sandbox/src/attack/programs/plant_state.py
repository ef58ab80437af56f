"""Changes everything that a later program could find."""
import builtins
import json
import socket

signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.environ["PLANTED"] = "yes"
os.umask(0o777)
builtins.planted = "yes"
json.dumps = lambda *_: "planted"
sys.path.insert(0, "/tmp")
sys.modules["planted"] = json
sys.argv.append("planted")
for path in ("/tmp/planted", "/tmp/numpy.py", "/tmp/sitecustomize.py", "/dev/shm/planted"):
    try:
        with open(path, "w") as file:
            file.write("raise SystemExit('planted')")
    except OSError:
        pass
os.nice(3)
sys.setrecursionlimit(60)
sys.setswitchinterval(100)
held("planted files, variables, masks, modules")
