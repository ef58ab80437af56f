"""Full pipes and socket buffers are kernel memory."""
import fcntl
import socket

F_SETPIPE_SZ = 1031
total, block, refusals = 0, bytes(1 << 16), 0
try:
    while True:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            fcntl.fcntl(writer, F_SETPIPE_SZ, 1 << 20)
        except OSError:
            refusals += 1
        try:
            while True:
                total += os.write(writer, block)
        except BlockingIOError:
            pass
except OSError as error:
    if total < 512 << 20:
        held(f"{error!r} after {total >> 20} MiB in pipes, {refusals} of them not enlarged")
    else:
        broken(f"{total >> 20} MiB in pipes")
