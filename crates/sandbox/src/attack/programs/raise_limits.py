import resource

for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_NOFILE",
             "RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_NICE", "RLIMIT_RTPRIO", "RLIMIT_SIGPENDING",
             "RLIMIT_MSGQUEUE"):
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    if hard == resource.RLIM_INFINITY:
        broken(f"{name} has no hard limit")
        continue
    for wanted in (hard + 1, resource.RLIM_INFINITY):
        try:
            resource.setrlimit(number, (wanted, wanted))
        except (ValueError, PermissionError) as error:
            held(f"{name} above {hard}: {error}")
        else:
            broken(f"{name} raised to {wanted}")
