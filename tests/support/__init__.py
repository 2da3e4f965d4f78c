"""Test beds: real servers and wires that a test can cut, freeze and restart."""
