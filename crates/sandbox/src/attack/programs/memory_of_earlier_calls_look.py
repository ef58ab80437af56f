"""Reads all of its own memory for a word that only an earlier program wrote. The pattern does not
match its own text."""
import re

pattern = re.compile(rb"PLANTED-IN-[M]EMORY-7f3a")
scanned = found = 0
with open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in open("/proc/self/maps"):
        span, access = line.split()[:2]
        if not access.startswith("rw"):
            continue
        low, high = (int(it, 16) for it in span.split("-"))
        while low < high:
            try:
                memory.seek(low)
                block = memory.read(min(1 << 20, high - low))
            except (OSError, ValueError, OverflowError):
                break
            if not block:
                break
            scanned += len(block)
            found += len(pattern.findall(block))
            low += len(block)
if found > 0:
    broken(f"{found} copies of an earlier program's word")
elif scanned > 1 << 20:
    held(f"nothing in {scanned >> 20} MiB of memory")
