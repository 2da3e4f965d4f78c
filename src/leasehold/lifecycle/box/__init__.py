"""The box book: first contact, checks, refresh, tunnels, consent."""
