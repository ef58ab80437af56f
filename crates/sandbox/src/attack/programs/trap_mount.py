os.mkdir("/tmp/point")
for name, arguments in {
    "umount2": (b"/proc", 2), "pivot_root": (b"/tmp", b"/tmp/point"), "chroot": (b"/tmp",),
    "open_tree": (-100, b"/", 1), "move_mount": (-100, b"/", -100, b"/tmp/point", 0),
    "fsopen": (b"proc", 0), "fspick": (-100, b"/", 0), "mount_setattr": (-100, b"/", 0, 0, 0),
}.items():
    trapped(name, *arguments)
tried("mount")
syscall("mount", b"none", b"/tmp/point", b"tmpfs", 0, 0)
broken("mount returned")
