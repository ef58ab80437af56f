"""Stands in front of every attack: how evidence is given, and raw system calls.

An attack says what it saw, line by line: HELD (tried, and refused for the right reason), BROKEN
(got what it must not get), TRIED (about to do what should end it), SKIP (means nothing on this
machine). The lines are written past Python's own buffers, so that a sudden end loses none.
"""

import ctypes
import errno
import os
import signal
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
IS_X86_64 = os.uname().machine == "x86_64"

# name: number on x86_64, number on aarch64
_NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chroot": (161, 51), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105), "io_setup": (206, 0),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425),
    "ioctl": (16, 29), "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_load": (246, 104),
    "keyctl": (250, 219), "memfd_secret": (447, 447), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "mq_open": (240, 180), "msgget": (68, 186), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pivot_root": (155, 41), "prctl": (157, 167), "prlimit64": (302, 261),
    "process_madvise": (440, 440), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142),
    "remap_file_pages": (216, 234), "request_key": (249, 218), "seccomp": (317, 277),
    "semget": (64, 190), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "shmget": (29, 194), "socket": (41, 198),
    "swapon": (167, 224), "syslog": (103, 116), "timer_create": (222, 107), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58), "vmsplice": (278, 75),
}


def say(kind, what):
    os.write(1, f"{kind}: {what}\n".encode())


def held(why):
    say("HELD", why)


def broken(what):
    say("BROKEN", what)


def tried(what):
    say("TRIED", what)


def skip(why):
    say("SKIP", why)


def libc(name, *arguments):
    """Calls a C library function; raises OSError when it returns -1."""
    return _checked(getattr(_LIBC, name)(*arguments))


def syscall(name, *arguments):
    """Makes a system call by its number; raises OSError when it fails."""
    number = _NUMBERS[name][0 if IS_X86_64 else 1]
    words = [ctypes.c_long(it) if isinstance(it, int) else it for it in arguments]
    return _checked(_LIBC.syscall(ctypes.c_long(number), *words))


def _checked(result):
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def refused(what, attempt, *codes):
    """HELD if the attempt fails with one of these error codes, BROKEN otherwise."""
    try:
        result = attempt()
    except OSError as error:
        if error.errno in codes:
            held(f"{what}: {errno.errorcode[error.errno]}")
        else:
            broken(f"{what}: refused for another reason, {error!r}")
    else:
        broken(f"{what}: gave {result!r}")


def read(path):
    with open(path, "rb") as file:
        return file.read(200)


def trapped(name, *arguments):
    """HELD if the system call kills a child by SIGSYS."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGSYS, signal.SIG_DFL)
        try:
            syscall(name, *arguments)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        held(f"{name}: SIGSYS")
    else:
        broken(f"{name}: reached the kernel, wait status {status:#x}")


def run_machine_code(code):
    """Runs bytes as a function without arguments."""
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()
