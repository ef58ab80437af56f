tried(f"signals to process group and parent {os.getppid()}")
for target in (os.getppid(), os.getpgid(0), os.getsid(0)):
    if target not in (0, os.getpid()):
        try:
            os.kill(target, signal.SIGKILL)
        except OSError as error:
            held(f"kill {target}: {error!r}")
try:
    os.kill(0, signal.SIGTERM)
except OSError as error:
    broken(f"could not signal its own group: {error!r}")
broken("survived its own SIGTERM")
