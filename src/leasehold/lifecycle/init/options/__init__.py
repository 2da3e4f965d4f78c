"""Find which options a script has and what each is for."""
