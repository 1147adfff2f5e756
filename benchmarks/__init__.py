"""Benchmarks: each prints a ratio against the bare engine doing the same work in the same run."""
