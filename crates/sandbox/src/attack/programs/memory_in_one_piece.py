"""Sizes that no machine has."""
for size in (1 << 40, 1 << 62):
    try:
        bytearray(size)
    except (MemoryError, OverflowError) as error:
        held(f"{size} bytes: {error!r}")
    else:
        broken(f"got {size} bytes")
