"""What people and programs touch: parse, call the api, render."""
