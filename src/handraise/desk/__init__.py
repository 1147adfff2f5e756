"""The rules at work: ask, answer, wait, sweep. Knows the ports and the model, and no driver."""
