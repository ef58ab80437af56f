tried("a loop without an end")
while True:
    pass
