tried("endless standard error")
while True:
    print("y" * 4096, file=sys.stderr)
