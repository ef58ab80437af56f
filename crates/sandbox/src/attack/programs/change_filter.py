"""Loosening what holds this process."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_MM, PR_SET_SECUREBITS = 1, 4, 22, 35, 28
PR_SET_SYSCALL_USER_DISPATCH, PR_SET_PTRACER = 59, 0x59616D61
for name, option, argument in [
    ("PR_SET_PDEATHSIG", PR_SET_PDEATHSIG, 0), ("PR_SET_DUMPABLE", PR_SET_DUMPABLE, 2),
    ("PR_SET_SECCOMP", PR_SET_SECCOMP, 0), ("PR_SET_MM", PR_SET_MM, 1),
    ("PR_SET_SECUREBITS", PR_SET_SECUREBITS, 0), ("PR_SET_PTRACER", PR_SET_PTRACER, -1),
    ("PR_SET_SYSCALL_USER_DISPATCH", PR_SET_SYSCALL_USER_DISPATCH, 0),
    ("PR_SET_PDEATHSIG with a high bit", PR_SET_PDEATHSIG | 1 << 32, 0),
]:
    refused(name, lambda: syscall("prctl", option, argument, 0, 0, 0), errno.EPERM)
refused("seccomp", lambda: syscall("seccomp", 0, 0, 0), errno.EPERM)
PER_LINUX32, READ_IMPLIES_EXEC = 8, 0x400000
for persona in (PER_LINUX32, READ_IMPLIES_EXEC):
    refused(f"personality {persona:#x}", lambda: syscall("personality", persona), errno.EPERM)
