"""A tree that recursion can't clear away."""
os.chdir("/tmp")
depth = 0
try:
    while depth < 3_000:
        os.mkdir("d")
        os.chdir("d")
        depth += 1
except OSError as error:
    held(f"{error!r} at depth {depth}")
else:
    held(f"left a tree {depth} directories deep")
