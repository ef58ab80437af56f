count = 0
try:
    while count < 1_000_000:
        os.close(os.open(f"/tmp/{count}", os.O_CREAT | os.O_WRONLY))
        count += 1
except OSError as error:
    if error.errno == errno.ENOSPC:
        held(f"ENOSPC after {count} files")
    else:
        broken(f"{error!r} after {count} files")
else:
    broken(f"made {count} files")
