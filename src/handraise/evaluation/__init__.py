"""Answers of people as scores on the traces of agents, in services for evaluation."""
