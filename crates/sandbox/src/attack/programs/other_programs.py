"""Another program image runs under the same filter and in the same tree."""
import subprocess

shown = subprocess.run(["/bin/sh", "-c", "cat /etc/shadow; echo status $?"], capture_output=True)
if b"status 0" in shown.stdout:
    broken("a shell reads /etc/shadow")
else:
    held(f"a shell gets {shown.stderr.decode().strip()!r}")
status = subprocess.run(
    [sys.executable, "-c", "import ctypes; ctypes.CDLL(None).unshare(0x10000000); print('out')"],
    capture_output=True,
)
if status.returncode == -signal.SIGSYS:
    held("unshare in a fresh interpreter: SIGSYS")
else:
    broken(f"unshare in a fresh interpreter: {status}")
