"""Find the options of a script and the role of each."""
