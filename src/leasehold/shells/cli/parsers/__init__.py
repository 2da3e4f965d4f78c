"""The options of each command: one function a command, named in the table."""
