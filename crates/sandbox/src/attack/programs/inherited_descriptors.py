"""Whatever the interpreter held before it ran this program would be a way to the supervisor."""
descriptors = sorted(int(it) for it in os.listdir("/proc/self/fd"))
extra = []
for descriptor in descriptors:
    if descriptor <= 2:
        continue
    try:
        extra.append((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    except FileNotFoundError:
        continue
    try:
        os.write(descriptor, b"\xff" * 4096)
    except OSError:
        pass
if extra:
    broken(f"inherited {extra}")
else:
    held(f"holds only {descriptors[:3]}")
