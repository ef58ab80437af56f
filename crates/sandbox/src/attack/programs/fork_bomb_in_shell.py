"""The bomb of the shell, from a process that is not Python."""
tried(":(){ :|:& };:")
os.execv("/bin/sh", ["/bin/sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 60"])
