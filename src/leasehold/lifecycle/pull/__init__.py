"""Pull files home in ranges over one or more connections, hashed on arrival and resumable at any byte."""
