"""Units, money, wording."""
