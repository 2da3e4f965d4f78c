"""Units, money, safe text."""
