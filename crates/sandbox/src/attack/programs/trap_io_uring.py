"""io_uring would open files and sockets without making those system calls."""
parameters = ctypes.create_string_buffer(120)
trapped("io_uring_enter", 0, 1, 0, 0, 0, 0)
trapped("io_uring_register", 0, 0, 0, 0)
tried("io_uring_setup")
syscall("io_uring_setup", 4, parameters)
broken("io_uring_setup returned")
