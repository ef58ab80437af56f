"""Creates a file in every directory of the tree, and opens every top-level library for writing."""
directories = created = 0
for folder, subfolders, files in os.walk("/"):
    if folder == "/":
        subfolders[:] = [it for it in subfolders if it not in ("proc", "tmp")]
    if os.path.realpath(folder).startswith("/tmp"):
        continue
    directories += 1
    try:
        os.close(os.open(os.path.join(folder, ".planted"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        continue
    created += 1
    broken(f"created a file in {folder}")
if created == 0 and directories > 10:
    held(f"none of {directories} directories can be written")
for path in [os.__file__, sys.executable, "/etc/passwd", "/etc/ld.so.cache", "/proc/self/exe"]:
    refused(path, lambda path=path: os.open(path, os.O_RDWR), errno.EROFS, errno.EACCES,
            errno.ENOENT, errno.ETXTBSY)
