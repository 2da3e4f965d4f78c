"""The files of a pull on the home disk: what has arrived, what is reused, what is in memory."""
