KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING = 0, -4
trapped("add_key", b"user", b"planted", b"secret", 6, KEY_SPEC_USER_KEYRING)
trapped("request_key", b"user", b"planted", 0, 0)
tried("keyctl")
syscall("keyctl", KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1, 0, 0)
broken("keyctl returned")
