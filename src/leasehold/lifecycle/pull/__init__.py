"""Files come home in ranges over one or more connections, hashed as they come, resumable at any byte."""
