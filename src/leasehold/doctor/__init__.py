"""Symptom to cause to remedy, over logs, exit codes, states, readings and source; changes nothing."""
