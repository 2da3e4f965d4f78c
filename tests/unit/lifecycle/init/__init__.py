"""`lease init`: what it sees in projects, what it writes, and what it carries over from other tools."""
