"""The i386 entry has other numbers: 11 is execve there and munmap here."""
if not IS_X86_64:
    skip("only x86_64 has an i386 entry")
    sys.exit()
# mov eax, 20 (getpid on i386); int 0x80; ret
GETPID = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
pid = os.fork()
if pid == 0:
    run_machine_code(GETPID)
    os._exit(0)
status = os.waitpid(pid, 0)[1]
if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGSEGV):
    held(f"int 0x80 in a child: signal {os.WTERMSIG(status)}")
else:
    broken(f"int 0x80 in a child: wait status {status:#x}")
tried("int 0x80")
broken(f"int 0x80 returned {run_machine_code(GETPID)}")
