status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[name], 16):
        broken(f"{name} is {status[name]}")
    else:
        held(f"{name} is empty")
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
wanted = (ctypes.c_uint32 * 6)(0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0, 0)
refused("capset", lambda: libc("capset", header, wanted), errno.EPERM)
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN = 47, 2, 21
refused("ambient capability", lambda: libc("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
                                           CAP_SYS_ADMIN, 0, 0), errno.EPERM)
