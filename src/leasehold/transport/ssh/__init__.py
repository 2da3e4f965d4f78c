"""The settings of this machine's OpenSSH client: its config, its ciphers, the host keys we pin."""
