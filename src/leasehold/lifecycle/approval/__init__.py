"""Approvals: typed or signed, their lifetime, and who may sign."""
