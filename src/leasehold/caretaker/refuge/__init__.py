"""Copy checkpoints off the box while training goes on: a patient worker, and the caretaker's watch over it."""
