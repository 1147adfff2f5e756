"""When a seal may be added to the chain of its workspace."""

from __future__ import annotations

from collections.abc import Sequence

from handraise.model.seals import Seal
from handraise.ports import Head


def continues(seal: Seal, head: Head, behind: Sequence[str]) -> bool:
    """Whether a seal continues the last one; `behind` are the events from there to its end. See `Ledger.append`."""
    last = head.seal
    if last is not None and last.key_id is not None and seal.key_id is None:
        return False
    return (
        seal.number == (last.number + 1 if last else 1)
        and seal.cursors == tuple(behind)
        and (last.oldest if last else 1) <= seal.oldest <= min(head.oldest or seal.number, seal.number)
    )
