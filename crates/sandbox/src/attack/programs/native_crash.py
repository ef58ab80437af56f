tried("reading address 0")
ctypes.string_at(0)
