"""Files without a name are memory that no mapping shows."""
tried("writing to one memfd after another")
block = bytes(1 << 20)
total = 0
try:
    while total < 1 << 30:
        descriptor = os.memfd_create("hoard")
        for _ in range(15):
            total += os.write(descriptor, block)
except OSError as error:
    if total < 256 << 20:
        held(f"{error!r} after {total >> 20} MiB")
    else:
        broken(f"{total >> 20} MiB in files without a name, then {error!r}")
else:
    broken(f"{total >> 20} MiB in files without a name")
