"""Platform profiles, plan sheets, billing facts."""
