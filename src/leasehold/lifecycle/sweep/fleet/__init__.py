"""Run a sweep over several boxes: claim, assign, balance, reconnect."""
