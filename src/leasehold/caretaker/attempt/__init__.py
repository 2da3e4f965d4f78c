"""One attempt of a cell: its keeper, its folders, its shell environment."""
