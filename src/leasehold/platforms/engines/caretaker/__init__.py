"""The caretaker engine: each part of the contract as requests to our own supervisor on the box."""
