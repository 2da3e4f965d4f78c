"""Front ends for people and programs: parse, call the api, render."""
