"""What a desk does: ask, answer, wait, sweep. It uses the ports and the model, and no driver."""
