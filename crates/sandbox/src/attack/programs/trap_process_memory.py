class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


buffer = ctypes.create_string_buffer(64)
part = Part(ctypes.addressof(buffer), 64)
trapped("process_vm_writev", 1, ctypes.byref(part), 1, ctypes.byref(part), 1, 0)
tried("process_vm_readv")
syscall("process_vm_readv", 1, ctypes.byref(part), 1, ctypes.byref(part), 1, 0)
broken("process_vm_readv returned")
