"""Information for people: the handbook, notification channels, signers."""
