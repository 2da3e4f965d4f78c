"""States of unfinished cells at home: pull the newest whole one, keep it as a refuge, read it back."""
