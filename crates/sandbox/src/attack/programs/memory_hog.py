"""Takes memory and writes to it, until stopped."""
tried("writing to one MiB after another")
hoard = []
while True:
    hoard.append(bytearray(os.urandom(4096)) * 256)
