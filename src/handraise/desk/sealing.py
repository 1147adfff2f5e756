"""Sealing events, beside everything else: any process may, and one does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.sealing import (
    NOTHING_BEFORE,
    Seal,
    Signer,
    event_leaf,
    event_record,
    removal_leaf,
)
from handraise.ports import Ledger, Store

_log = logging.getLogger(__name__)

AT_ONCE = 1_000
"""How many events a seal covers at most."""
_WORKSPACES = 1_000


class Sealer:
    """Seals what the feeds of workspaces show, which is final, up to their ends."""

    def __init__(self, store: Store, ledger: Ledger, signer: Signer | None = None) -> None:
        self._store = store
        self._ledger = ledger
        self._signer = signer
        self._aside: set[tuple[str, str | None]] = set()

    async def run(self) -> int:
        """Seal what there is, everywhere; how many seals that took. One workspace's trouble is not the others'."""
        made = 0
        for workspace in await self._ledger.unsealed(limit=_WORKSPACES):
            try:
                made += await self.seal(workspace)
            except StoreUnavailable as error:
                _log.warning("a workspace cannot be sealed now, which is tried again later: %s", error)
        return made

    async def seal(self, workspace: str) -> int:
        """Seal what there is in a workspace; how many seals that took."""
        made = 0
        while await self._next(workspace):
            made += 1
        return made

    async def _next(self, workspace: str) -> bool:
        """Make one seal; False where there is nothing to seal, or it is for others to do."""
        head = await self._ledger.head(workspace)
        last = head.seal
        after = last.cursor if last else None
        events = await self._store.feed(workspace, after=after, limit=AT_ONCE)
        removals = await self._ledger.removals(workspace, seal=None, limit=AT_ONCE)
        if not (events or removals) or not await self._may_seal(workspace, last):
            return False
        number = last.number + 1 if last else 1
        leaves = await self._leaves(workspace, events)
        seal = Seal(
            workspace=workspace,
            number=number,
            oldest=number if head.oldest is None else min(head.oldest, number),
            previous=last.digest if last else NOTHING_BEFORE,
            sealed_at=head.now,
            cursor=events[-1].cursor if events else after or "",
            cursors=tuple(event.cursor for event in events),
            leaves=(*leaves, *(removal_leaf(each.record) for each in removals)),
            key_id=self._signer.key_id if self._signer else None,
        )
        if self._signer is not None:
            seal = signed(seal, self._signer)
        return await self._ledger.append(seal, removals=[each.number for each in removals])

    async def _may_seal(self, workspace: str, last: Seal | None) -> bool:
        """Whether this process may go on with the chain: never unsigned behind signed, nor with a key that was replaced."""
        own = self._signer.key_id if self._signer else None
        if last is None or own == last.key_id:
            return True
        if own is not None and not await self._ledger.has_signed(workspace, own):
            return True
        if (workspace, last.key_id) not in self._aside:
            self._aside.add((workspace, last.key_id))
            _log.warning(
                "the audit trail of workspace %r is signed with the key %s: this process, which has %s, does not seal it",
                workspace,
                last.key_id,
                f"the older key {own}" if own else "no key",
            )
        return False

    async def _leaves(self, workspace: str, events: Sequence[Event]) -> list[bytes]:
        ids = {event.question_id for event in events}
        salts = await self._ledger.salts(workspace, ids)
        asked = await self._ledger.asked(workspace, asked_in(events))

        def digest() -> list[bytes]:
            return [
                event_leaf(
                    salts.get(event.question_id, b""),
                    event_record(
                        event, asked.get(event.question_id) if event.kind is EventKind.ASKED else None
                    ),
                )
                for event in events
            ]

        return await asyncio.to_thread(digest)  # a thousand of them would hold up whoever asks


def asked_in(events: Sequence[Event]) -> set[str]:
    """The questions whose asking is among these events."""
    return {event.question_id for event in events if event.kind is EventKind.ASKED}


def signed(seal: Seal, signer: Signer) -> Seal:
    """The same seal with its signature."""
    return replace(seal, signature=signer.sign(seal.digest))
