for name, arguments in {
    "sethostname": (b"x", 1), "setdomainname": (b"x", 1), "settimeofday": (0, 0),
    "clock_settime": (0, 0), "adjtimex": (0,), "acct": (b"/tmp/x",), "swapon": (b"/tmp/x", 0),
    "syslog": (3, 0, 0), "quotactl": (0, 0, 0, 0), "vhangup": (), "fanotify_init": (0, 0),
    "ioprio_set": (1, 0, 0), "move_pages": (1, 0, 0, 0, 0, 0),
}.items():
    refused(name, lambda: syscall(name, *arguments), errno.EPERM)
if os.uname().nodename in ("", open("/etc/hostname").read().strip() if os.path.exists("/etc/hostname") else ""):
    broken("shows the host's name")
else:
    held(f"host name is {os.uname().nodename!r}")
