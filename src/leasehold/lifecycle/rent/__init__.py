"""Rent a box through a landlord's API: offers for a job, a person's yes, the intent, the create, the first contact."""
