"""The refuge: whole states of a run kept off its box, who may write there, and how the newest is found again."""
