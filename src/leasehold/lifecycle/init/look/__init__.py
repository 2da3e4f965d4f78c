"""Find what a project trains, what it needs and which commands it documents."""
