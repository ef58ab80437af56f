import builtins
import json

finds = {
    "signal mask": bool(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "ignored SIGINT": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    "environment": "PLANTED" in os.environ,
    "umask": os.umask(0o022) == 0o777,
    "builtins": hasattr(builtins, "planted"),
    "module state": json.dumps(1) != "1",
    "path": "/tmp" in sys.path[1:],
    "modules": "planted" in sys.modules,
    "arguments": "planted" in sys.argv,
    "files": any(os.path.exists(it) for it in ("/tmp/planted", "/tmp/numpy.py", "/dev/shm/planted")),
    "files in /tmp": os.listdir("/tmp"),
    "recursion limit": sys.getrecursionlimit() < 100,
    "switch interval": sys.getswitchinterval() > 1,
}
left = {name: found for name, found in finds.items() if found}
if left:
    broken(f"an earlier call left {left}")
else:
    held(f"none of {len(finds)} places holds anything")
