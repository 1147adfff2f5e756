"""Several PostgreSQL databases as one backend: each workspace lives on one of them, and can move.

A placement database knows which. Asking, answering and waiting need no query across shards.
"""

from handraise.model.errors import MissingExtra

try:
    import asyncpg as _driver
except ImportError as error:
    raise MissingExtra("asyncpg", "postgres") from error
else:
    del _driver

from handraise.backends.shards.backend import SCHEME, open_shards, placement_address
from handraise.backends.shards.shard_list import ShardSummary, enlist, list_shards
from handraise.backends.shards.workspace_move import Moved, move_workspace, tidy

__all__ = [
    "SCHEME",
    "Moved",
    "ShardSummary",
    "enlist",
    "list_shards",
    "move_workspace",
    "open_shards",
    "placement_address",
    "tidy",
]
