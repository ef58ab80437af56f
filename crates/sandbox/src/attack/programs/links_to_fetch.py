"""Names that the caller asks back, pointing elsewhere or never ending."""
os.chdir("/tmp")
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder")
os.symlink("/proc/self/environ", "environment")
os.mkfifo("pipe")
os.mkdir("directory")
with open("plain", "w") as file:
    file.write("text")
held("links, a pipe and a directory are in place")
