"""A session keeps a channel to its supervisor; garbage goes to every descriptor."""
tried("writing garbage to every descriptor of the session")
for descriptor in range(3, 2048):
    for _ in range(4):
        try:
            os.set_blocking(descriptor, False)
            os.write(descriptor, b"\xff\x00garbage" * 512)
        except OSError:
            break
