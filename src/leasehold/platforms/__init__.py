"""Landlords and engines behind two small contracts."""
