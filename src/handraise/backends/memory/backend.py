"""Opening a backend in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handraise.backends.memory.bus import MemoryBus
from handraise.backends.memory.directory import MemoryDirectory
from handraise.backends.memory.files import memory_files
from handraise.backends.memory.ledger import MemoryLedger
from handraise.backends.memory.outbox import MemoryOutbox
from handraise.backends.memory.policies import MemoryPolicies
from handraise.backends.memory.store import MemoryStore
from handraise.ports import Backend, Clock


@asynccontextmanager
async def open_memory(*, clock: Clock | None = None) -> AsyncIterator[Backend]:
    """A backend whose contents are lost when this ends."""
    store = MemoryStore(clock)
    directory, outbox = MemoryDirectory(store, clock), MemoryOutbox(store, clock)
    store.groups_known, store.is_administrator = directory.groups_known, directory.is_administrator
    store.is_disabled = directory.is_disabled
    directory.addresses = outbox.addresses
    files, blobs = memory_files(store, clock)
    ledger = MemoryLedger(store, directory, outbox, clock, files=files)
    policies = MemoryPolicies(store, clock)
    yield Backend(store, MemoryBus(), directory, outbox, ledger, policies, files, blobs)
