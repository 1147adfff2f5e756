"""How what an agent wrote is shown to people: one reading of its text, and a way to show it for each place."""
