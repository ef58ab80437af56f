opened = 0
try:
    while opened < 1_000_000:
        os.dup(0)
        opened += 1
except OSError as error:
    if error.errno == errno.EMFILE:
        held(f"EMFILE after {opened} descriptors")
    else:
        broken(repr(error))
else:
    broken(f"opened {opened} descriptors")
