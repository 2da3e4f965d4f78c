"""Approvals: typed or signed, how long they last, who may sign."""
