"""Points at which tests stop or kill a process."""
