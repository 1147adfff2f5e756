"""The ports that a desk needs: a store, a bus, a directory, an outbox, a ledger, policies, files and their bytes.

Their docstrings are the contract.

`handraise.testing` has the suites that every implementation must pass.
"""

from collections.abc import Callable
from typing import NamedTuple

from handraise.ports.blobs import Blobs
from handraise.ports.bus import Bus, HintHandler, Interest, credentials_of, feed_of
from handraise.ports.clock import Clock, IdFactory
from handraise.ports.directory import Claim, Directory
from handraise.ports.files import Files
from handraise.ports.ledger import Head, Ledger, SignedHeads
from handraise.ports.outbox import Outbox, OutboxEntry, RoutedEntry
from handraise.ports.policies import Policies
from handraise.ports.store import (
    AGES,
    MAX_EVENTS_SCANNED,
    MAX_PLACES_COUNTED,
    MAX_PLACES_SCANNED,
    Durability,
    Endings,
    Filter,
    IndexBatch,
    IndexEntry,
    Inserted,
    PoolStats,
    QueueStats,
    Recovered,
    SearchPage,
    SettledPage,
    SettledRows,
    Store,
    Waiting,
    WaitingPage,
    WorkspaceEventSearch,
)

__all__ = [
    "AGES",
    "MAX_EVENTS_SCANNED",
    "MAX_PLACES_COUNTED",
    "MAX_PLACES_SCANNED",
    "Backend",
    "Blobs",
    "Bus",
    "Claim",
    "Clock",
    "Directory",
    "Durability",
    "Endings",
    "Files",
    "Filter",
    "Head",
    "HintHandler",
    "IdFactory",
    "IndexBatch",
    "IndexEntry",
    "Inserted",
    "Interest",
    "Ledger",
    "Outbox",
    "OutboxEntry",
    "Policies",
    "PoolStats",
    "QueueStats",
    "Recovered",
    "RoutedEntry",
    "SearchPage",
    "SettledPage",
    "SettledRows",
    "SignedHeads",
    "Store",
    "Waiting",
    "WaitingPage",
    "WorkspaceEventSearch",
    "credentials_of",
    "feed_of",
]


class Backend(NamedTuple):
    """What an address opens: eight ports that belong together.

    `pool_stats` says how busy the connection pool is; None if there is none.
    """

    store: Store
    bus: Bus
    directory: Directory
    outbox: Outbox
    ledger: Ledger
    policies: Policies
    files: Files
    blobs: Blobs
    pool_stats: Callable[[], PoolStats] | None = None
