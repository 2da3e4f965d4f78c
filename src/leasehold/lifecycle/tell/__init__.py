"""What people get: the handbook, notification channels, signers."""
