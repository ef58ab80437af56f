"""What the mounts themselves say: all but /tmp and /proc read-only, all without set-uid."""
mounts = 0
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    point, flags = fields[4], fields[5].split(",")
    mounts += 1
    if "nosuid" not in flags:
        broken(f"{point} honours set-uid: {flags}")
    if point not in ("/tmp", "/proc") and "ro" not in flags:
        broken(f"{point} can be written: {flags}")
    if point == "/tmp" and "nodev" not in flags:
        broken(f"{point} honours device nodes: {flags}")
if mounts:
    held(f"{mounts} mounts, all nosuid, all but /tmp and /proc read-only")
