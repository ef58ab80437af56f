import re

tried("(a+)+$ on 60 letters")
re.match(r"(a+)+$", "a" * 60 + "!")
broken("finished")
