"""Changes a library's pages in memory: through a shared mapping, and through /proc/self/mem, which
ignores page protection. The first is refused; the second changes this process's own copy."""
import mmap

MARKER = b"# planted by a hostile program #"
PROT_READ, PROT_WRITE, MAP_SHARED = 1, 2, 1
path = os.__file__
_LIBC.mmap.restype = ctypes.c_void_p
with open(path, "rb") as file:
    refused("shared writable mapping", lambda: mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED),
            errno.EACCES)
    address = _LIBC.mmap(None, ctypes.c_size_t(4096), PROT_READ, MAP_SHARED, file.fileno(),
                         ctypes.c_long(0))
    refused("mprotect of a shared mapping",
            lambda: libc("mprotect", ctypes.c_void_p(address), ctypes.c_size_t(4096),
                         PROT_READ | PROT_WRITE), errno.EACCES)
    private = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
start = next(int(it.split("-")[0], 16) for it in open("/proc/self/maps") if path in it and "r--p" in it)
memory = os.open("/proc/self/mem", os.O_RDWR)
try:
    os.pwrite(memory, MARKER, start)
except OSError as error:
    held(f"/proc/self/mem on a read-only page: {error}")
else:
    tried(f"wrote {private[:len(MARKER)]} over its own view of {path}")
if MARKER in open(path, "rb").read():
    broken("the file itself changed")
else:
    held("the file itself is as it was")
