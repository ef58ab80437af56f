"""A child says that all went well while the parent fails."""
if os.fork() == 0:
    sys.exit(0)
os.wait()
raise ValueError("really failed")
