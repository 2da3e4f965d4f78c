"""The caretaker of a run: attempts, stages, recovery, stops, budget."""
