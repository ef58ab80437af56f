os.write(1, bytes(range(256)))
os.write(2, b"\xff\xfe\x00\xc3\x28\xed\xa0\x80")
