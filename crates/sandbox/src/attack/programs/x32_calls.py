"""The x32 numbers reach the same calls, past a filter that only knows the others."""
if not IS_X86_64:
    skip("only x86_64 has x32 numbers")
    sys.exit()
X32 = 0x40000000
_NUMBERS |= {"x32 getpid": (X32 | 39, 0), "x32 ptrace": (X32 | 521, 0), "x32 execve": (X32 | 520, 0)}
for name in ("x32 ptrace", "x32 execve"):
    trapped(name, 0, 0, 0)
tried("x32 getpid")
broken(f"x32 getpid returned {syscall('x32 getpid')}")
