"""Landlords on this machine: real HTTP servers with a state, a meter in virtual time, and faults by switch."""
