"""Find which script of a project trains, what it needs and which commands it documents."""
