"""The pod's own process: take the run over by an epoch, start its caretaker, pass on signals, leave when it is over."""
