"""The options of each command, in the function that the table names."""
