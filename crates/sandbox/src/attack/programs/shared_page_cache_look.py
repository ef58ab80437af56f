if b"planted" in open(os.__file__, "rb").read(4096):
    broken("an earlier call changed a library for all")
else:
    held("the library is as it was")
