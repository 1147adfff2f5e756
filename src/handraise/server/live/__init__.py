"""Streams of events: one broadcaster in each process, and who may see what."""
