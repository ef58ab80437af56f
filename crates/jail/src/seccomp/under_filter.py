"""Installs the filter given in hexadecimal as the only argument, then uses what programs use.

Prints one line for each part that works. A part that needs a package which is not installed prints
`skip`. Started with no argument (by multiprocessing's spawn) it only defines things.
"""

import ctypes
import os
import sys


def install(program):
    class Fprog(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    fprog = Fprog(len(program) // 8, program)
    PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(fprog)) == 0


def square(number):
    return number * number


def threads():
    import threading

    seen = []
    workers = [threading.Thread(target=seen.append, args=(n,)) for n in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert sorted(seen) == [0, 1, 2, 3]


def processes():
    import subprocess

    assert subprocess.check_output(["/bin/sh", "-c", "echo hello"]) == b"hello\n"
    assert subprocess.run([sys.executable, "-c", "exit(3)"], check=False).returncode == 3
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def pools():
    import concurrent.futures
    import multiprocessing

    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            assert list(pool.map(square, range(4))) == [0, 1, 4, 9]
    with multiprocessing.get_context("fork").Manager() as manager:
        assert list(manager.list([1, 2])) == [1, 2]


def shared_memory():
    import mmap
    import multiprocessing
    from multiprocessing import shared_memory

    with multiprocessing.get_context("fork").Lock():
        pass
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.buf[0] = 1
    block.close()
    block.unlink()
    with mmap.mmap(-1, 4096) as anonymous:
        anonymous.write(b"x")


def event_loops():
    import asyncio
    import select
    import selectors
    import socket

    async def main():
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", "echo 5", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        await asyncio.sleep(0)
        return output

    assert asyncio.run(main()) == b"5\n"
    left, right = socket.socketpair()
    left.send(b"x")
    assert select.select([right], [], [], 1)[0] == [right]
    with selectors.DefaultSelector() as selector:
        selector.register(right, selectors.EVENT_READ)
        assert selector.select(1)


def signals():
    import signal

    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    signal.signal(signal.SIGALRM, lambda *_: seen.append(2))
    signal.sigwait
    while len(seen) < 2:
        signal.pause()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    signal.raise_signal(signal.SIGUSR2)
    assert signal.sigwait([signal.SIGUSR2]) == signal.SIGUSR2


def files():
    import fcntl
    import shutil
    import tarfile
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        with open(path, "w") as file:
            file.write("text")
            fcntl.flock(file, fcntl.LOCK_EX)
        shutil.copy2(path, path + "2")
        shutil.copytree(folder, folder + "-copy")
        shutil.rmtree(folder + "-copy")
        with tarfile.open(path + ".tar", "w") as archive:
            archive.add(path, "a")
        with tarfile.open(path + ".tar") as archive:
            archive.extractall(os.path.join(folder, "out"), filter="data")
        os.mkfifo(path + ".pipe")
        os.link(path, path + "3")
        os.symlink("a", path + "4")
        os.chmod(path, 0o600)
        os.utime(path)
        os.truncate(path, 1)
        assert len(list(os.scandir(folder))) == 7
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    os.memfd_create("x")
    sys.stdout.isatty()


def information():
    import platform
    import resource
    import time

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.getrusage(resource.RUSAGE_SELF)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(1)
    os.urandom(8), os.times(), os.uname(), os.getloadavg(), platform.platform()
    time.sleep(0.001), time.perf_counter(), time.time()


def database():
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        assert connection.execute("select 1 + 1").fetchone() == (2,)


def refusals():
    import errno
    import socket

    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, 38, 40):
        try:
            socket.socket(family)
        except PermissionError as error:
            assert error.errno == errno.EACCES
        else:
            raise AssertionError(family)
    libc = ctypes.CDLL(None, use_errno=True)
    TIOCSTI = 0x5412
    for request in (TIOCSTI, TIOCSTI | 1 << 32):
        assert libc.ioctl(1, ctypes.c_ulong(request), b"x") == -1
        assert ctypes.get_errno() == errno.ENOTTY
    libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]
    assert libc.prctl(1, 9, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM
    assert libc.syscall(ctypes.c_long(1000)) == -1 and ctypes.get_errno() == errno.ENOSYS


def traps():
    import signal

    libc = ctypes.CDLL(None)
    SIGCHLD, CLONE_NEWUSER, CLONE_NEWNET = 17, 0x10000000, 0x40000000
    attempts = {
        "unshare": lambda: libc.unshare(CLONE_NEWUSER),
        "setns": lambda: libc.setns(0, CLONE_NEWNET),
        "ptrace": lambda: libc.ptrace(0, 0, 0, 0),
        "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
        "io_uring_setup": lambda: libc.syscall(425, 1, None),
    }
    if os.uname().machine == "x86_64":
        attempts["clone"] = lambda: libc.syscall(56, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
        attempts["x32"] = lambda: libc.syscall(0x40000000 | 39)
        attempts["int 0x80"] = thirty_two_bit
    for name, attempt in attempts.items():
        pid = os.fork()
        if pid == 0:
            attempt()
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS, (name, status)


def thirty_two_bit():
    """getpid through the i386 entry: mov eax, 20; int 0x80; ret."""
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def science():
    import numpy
    import scipy.linalg
    import scipy.optimize
    import sympy

    matrix = numpy.arange(1.0, 10001).reshape(100, 100) + numpy.eye(100) * 1e4
    assert numpy.allclose(numpy.linalg.solve(matrix, matrix @ numpy.ones(100)), 1)
    assert scipy.linalg.lu(matrix)[0].shape == (100, 100)
    assert abs(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2) ** 2 - 2) < 1e-9
    x = sympy.symbols("x")
    assert sympy.solve(x**2 - 5 * x + 6, x) == [2, 3]


def main():
    install(bytes.fromhex(sys.argv[1]))
    parts = [
        threads, processes, pools, shared_memory, event_loops, signals, files, information,
        database, refusals, traps, science,
    ]
    for part in parts:
        try:
            part()
            print("ok", part.__name__, flush=True)
        except ModuleNotFoundError as missing:
            print("skip", part.__name__, missing.name, flush=True)


if __name__ == "__main__" and len(sys.argv) == 2:
    main()
