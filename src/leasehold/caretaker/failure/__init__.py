"""Judge a failed attempt, and free or refuse disk space before the next one."""
