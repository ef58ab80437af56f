tried("one file past its limit")
with open("/tmp/big", "wb", buffering=0) as file:
    while True:
        file.write(bytes(1 << 20))
