"""PostgreSQL: the engine of record. One statement for each decision, NOTIFY as a hint."""

from handraise.backends.postgres.opening import open_postgres

__all__ = ["open_postgres"]
