"""Past the interpreter's own guard."""
sys.setrecursionlimit(1 << 30)
tried("endless recursion through C")
recursive = lambda: sorted([1], key=lambda _: recursive())
recursive()
