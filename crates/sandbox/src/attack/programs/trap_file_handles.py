"""The way out of containers that shared a file system with their host."""
handle = ctypes.create_string_buffer(8 + 128)
refused("name_to_handle_at", lambda: syscall("name_to_handle_at", -100, b"/", handle, handle, 0),
        errno.EPERM)
tried("open_by_handle_at")
syscall("open_by_handle_at", os.open("/", os.O_RDONLY), handle, os.O_RDONLY)
broken("open_by_handle_at returned")
