held("about to close all three streams")
os.closerange(0, 3)
