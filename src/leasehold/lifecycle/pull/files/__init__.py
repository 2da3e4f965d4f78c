"""The files of a pull on the home disk: arrived ranges, reused copies, and blocks in memory."""
