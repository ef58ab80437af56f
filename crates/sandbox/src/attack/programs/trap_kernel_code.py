"""BPF, performance counters, user-space page faults: large and often broken."""
attributes = ctypes.create_string_buffer(128)
trapped("perf_event_open", attributes, 0, -1, -1, 0)
trapped("userfaultfd", 0)
tried("bpf")
syscall("bpf", 0, attributes, 128)
broken("bpf returned")
