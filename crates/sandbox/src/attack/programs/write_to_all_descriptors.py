"""Garbage to every number, then a failure: it must be reported as one."""
tried("writing garbage to 1024 descriptors")
for descriptor in range(3, 1024):
    try:
        os.write(descriptor, b"\x00\xff{\"outcome\":{\"type\":\"ok\"}}\n" * 8)
    except OSError:
        pass
raise ValueError("really failed")
