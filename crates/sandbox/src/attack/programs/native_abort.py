tried("abort")
os.abort()
