"""Hints over NATS, for more processes than PostgreSQL's NOTIFY can wake. The store remains the source of truth."""

from handraise.model.errors import MissingExtra

try:
    import nats as _driver
except ImportError as error:
    raise MissingExtra("nats-py", "nats") from error
else:
    del _driver

from handraise.backends.nats.bus import open_nats

__all__ = ["open_nats"]
