"""Set-uid has no effect here, and no other identity can be taken."""
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
if status["NoNewPrivs"] == "1":
    held("no_new_privs is set")
else:
    broken("no_new_privs is not set")
if os.getuid() == 0 or os.geteuid() == 0 or os.getgid() == 0:
    broken("runs as root")
with open("/tmp/shell", "wb") as file:
    file.write(read("/bin/true") if os.path.exists("/bin/true") else b"#!/bin/sh\n")
os.chmod("/tmp/shell", 0o6755)
for what, attempt in {
    "setuid": lambda: os.setuid(0), "setgid": lambda: os.setgid(0),
    "seteuid": lambda: os.seteuid(0), "setresuid": lambda: os.setresuid(0, 0, 0),
    "setgroups": lambda: os.setgroups([0]), "chown": lambda: os.chown("/tmp/shell", 0, 0),
}.items():
    refused(what, attempt, errno.EPERM)
