"""What both ends share. Runs under Debian's PyPy (3.9) too."""
