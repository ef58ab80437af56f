"""A failure dressed as an ending: leaves with status 0 from the middle of the program."""
print("ok", flush=True)
os._exit(0)
