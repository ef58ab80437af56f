PTRACE_TRACEME, PTRACE_ATTACH = 0, 16
trapped("ptrace", PTRACE_ATTACH, os.getppid() or 1, 0, 0)
tried("ptrace")
syscall("ptrace", PTRACE_TRACEME, 0, 0, 0)
broken("ptrace returned")
