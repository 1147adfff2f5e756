"""Proofs that anybody can run: faults, races, hostile input, and bugs that are planted to be caught."""
