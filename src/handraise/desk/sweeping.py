"""Sweeping: doing what timelines say is due. Safe in any number of processes at once."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.model.questions import Ref
from handraise.ports import Bus, Store

_BATCH = 500


async def sweep(store: Store, bus: Bus) -> Sequence[Ref]:
    """Do everything that is due now, wake whoever waits elsewhere, and give back what it settled."""
    settled = await store.sweep(limit=_BATCH)
    if settled:
        await bus.wake(settled)
    return settled
