"""PostgreSQL: the main engine. One statement makes each decision, and NOTIFY sends hints."""

from handraise.model.errors import MissingExtra

try:
    import asyncpg as _driver
except ImportError as error:
    raise MissingExtra("asyncpg", "postgres") from error
else:
    del _driver

from handraise.backends.postgres.backend import open_postgres

__all__ = ["open_postgres"]
