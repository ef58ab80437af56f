LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF = 0xFEE1DEAD, 672274793, 0
trapped("init_module", 0, 0, b"")
trapped("finit_module", 0, b"", 0)
trapped("delete_module", b"none", 0)
trapped("kexec_load", 0, 0, 0, 0)
tried("reboot")
syscall("reboot", LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF, 0)
broken("reboot returned")
