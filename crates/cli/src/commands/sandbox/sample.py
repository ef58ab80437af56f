"""The program of `rocstar sandbox run --sample`: computes something, then tries what it must not."""

import os
import socket
import sys
import time
from fractions import Fraction


def bernoulli(count):
    """The Bernoulli numbers B_0 … B_count, exactly (Akiyama and Tanigawa)."""
    row, numbers = [], []
    for m in range(count + 1):
        row.append(Fraction(1, m + 1))
        for j in range(m, 0, -1):
            row[j - 1] = j * (row[j - 1] - row[j])
        numbers.append(row[0])
    return numbers


def attempt(what, action):
    """Tries `action` and tells whether it was refused, as it has to be."""
    try:
        got = action()
    except OSError as error:
        print(f"  {what:<32} refused: {error.strerror}")
        return True
    print(f"  {what:<32} GOT THROUGH: {got!r}")
    return False


def reach_network():
    """Only looks for a way out: connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect(("192.0.2.1", 9))
        return connection.getsockname()


def see_processes():
    seen = [name for name in os.listdir("/proc") if name.isdigit()]
    if len(seen) <= 4:
        raise OSError(0, f"sees {len(seen)}, all its own")
    return seen


def write_beside_python():
    with open(os.path.join(os.path.dirname(os.__file__), "planted.py"), "w") as file:
        return file.write("x")


version = ".".join(map(str, sys.version_info[:3]))
print(f"Inside the sandbox: CPython {version}, process {os.getpid()}, user {os.getuid()}")

started = time.perf_counter()
number = bernoulli(60)[60]
print(f"Computed: B_60 = {number.numerator} / {number.denominator}")
print(f"          exactly, in {(time.perf_counter() - started) * 1000:.1f} ms")

print("Tried, and must be refused:")
held = [
    attempt("read /etc/shadow", lambda: open("/etc/shadow").read(40)),
    attempt("list the home directories", lambda: os.listdir("/home")),
    attempt("find a way to the network", reach_network),
    attempt("write beside Python's own files", write_beside_python),
    attempt("see the processes of the host", see_processes),
]

with open("/tmp/note.txt", "w") as file:
    file.write("private")
print(f"Its own /tmp holds {os.listdir('/tmp')}, and is gone after this line")
sys.exit(0 if all(held) else 1)
