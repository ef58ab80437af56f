import resource

refused_to_raise = False
try:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ValueError, PermissionError):
    refused_to_raise = True
if refused_to_raise and resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
    tried("a crash without room for a core file")
else:
    broken("may write core files")
os.chdir("/tmp")
os.kill(os.getpid(), signal.SIGSEGV)
