total = 0
try:
    for number in range(10_000):
        with open(f"/tmp/{number}", "wb", buffering=0) as file:
            total += file.write(bytes(1 << 20))
except OSError as error:
    if error.errno == errno.ENOSPC and total <= 17 << 20:
        held(f"ENOSPC after {total >> 20} MiB")
    else:
        broken(f"{error!r} after {total >> 20} MiB")
else:
    broken(f"wrote {total >> 20} MiB")
