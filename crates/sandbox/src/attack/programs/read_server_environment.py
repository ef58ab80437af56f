"""The server's secrets live in its environment; /proc/self/environ shows what a process was
started with, whatever it removed later."""
SUSPECT = ("TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL", "REDIS", "SSH", "AWS", "SUDO")
with open("/proc/self/environ", errors="replace") as file:
    started_with = file.read().split("\0")
names = sorted(set(os.environ) | {it.partition("=")[0] for it in started_with if it})
leaks = [name for name in names if any(word in name for word in SUSPECT)]
if leaks:
    broken(f"environment holds {leaks}")
else:
    held(f"environment holds only {names}")
