"""Children write on after their parent is gone."""
tried("children that flood")
for _ in range(4):
    if os.fork() == 0:
        while True:
            os.write(1, b"y" * 65536)
os._exit(0)
