"""What the OpenSSH client of this machine reads and offers: its config, its ciphers, the host keys we pin."""
