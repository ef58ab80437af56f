"""The classic one: every child forks on, and nobody handles the refusal."""
tried("forking in every process")
while True:
    os.fork()
