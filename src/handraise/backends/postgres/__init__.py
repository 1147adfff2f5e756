"""PostgreSQL: the engine of record. One statement for each decision, NOTIFY as a hint."""

from handraise.model.errors import MissingExtra

try:
    import asyncpg as _driver
except ImportError as error:
    raise MissingExtra("asyncpg", "postgres") from error
else:
    del _driver

from handraise.backends.postgres.backend import open_postgres

__all__ = ["open_postgres"]
