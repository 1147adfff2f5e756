"""SQLite: one file, nothing to start, for one host."""

from handraise.backends.sqlite.backend import open_sqlite

__all__ = ["open_sqlite"]
