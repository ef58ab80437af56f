"""Leaves a word in many places of memory."""
word = "".join(["PLANT", "ED-IN-", "MEMORY-", "7f3a"])
hoard = [word + str(number) for number in range(100_000)]
os.environ["WORD"] = word
held(f"{len(hoard)} copies in memory")
