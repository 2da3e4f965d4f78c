"""Tell people: handbook, notification channels, signers."""
