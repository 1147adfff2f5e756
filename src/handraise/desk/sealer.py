"""Seal events in the background: any process may do it, and one at a time does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from handraise.model.errors import StoreUnavailable, UnsafeStore
from handraise.model.events import Event, EventKind
from handraise.model.seals import (
    LOST_HEAD,
    NOTHING_BEFORE,
    HeadMark,
    Seal,
    Signer,
    event_leaf,
    event_record,
    removal_leaf,
)
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import Head, Ledger, SignedHeads, Store

_log = logging.getLogger(__name__)
T = TypeVar("T")

AT_ONCE = 1_000
"""The most events that a seal covers."""
_WORKSPACES = 1_000
_CHECKED_AT_ONCE = 50
_SEALS = 20
_FINISHED_WITHIN = 5.0


class BrokenChain(UnsafeStore):
    """The store's chain does not continue from the last signed seal, so nothing more of it is signed."""

    code = "broken_chain"


class Sealer:
    """Seals the final events of workspaces' trails, up to their ends.

    With a `signer`, it signs only seals that continue from the last one known in `heads`: otherwise anyone
    who can write to the store could delete all seals, rewrite the events and get everything signed again.
    `refused` holds the workspaces that it does not sign, each with the reason. `failed` holds those whose events
    cannot be sealed because of an error, which only an operator can correct. `appended` is called with each seal that
    this process appended; it must not raise.
    """

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        signer: Signer | None = None,
        heads: SignedHeads | None = None,
        appended: Callable[[Seal], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._signer = signer
        self._heads: SignedHeads = MemoryHeads() if heads is None else heads
        self._appended = appended
        self._aside: set[tuple[str, str | None]] = set()
        self._checked = ""
        self.refused: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.is_behind = False
        """Whether the last run left events unsealed."""

    async def run(self) -> int:
        """Seal the events of every workspace; return the number of seals.

        A failing workspace does not affect others.
        """
        made, self.is_behind = 0, True
        workspaces = await self._ledger.unsealed(limit=_WORKSPACES)
        is_behind = len(workspaces) == _WORKSPACES
        for workspace in self.failed.keys() - set(workspaces):
            del self.failed[workspace]
        for workspace in workspaces:
            try:
                made += await self.seal(workspace)
                self.failed.pop(workspace, None)
            except StoreUnavailable as error:
                is_behind = True
                _log.warning(
                    "a workspace cannot be sealed now; trying again later: %s",
                    error,
                    extra={"event": "seal_delayed"},
                )
            except BrokenChain:
                is_behind = True  # logged once, in `check`
            except Exception as error:  # noqa: BLE001 -- other workspaces are sealed all the same
                is_behind = True
                if self.failed.get(workspace) != (why := _in_one_line(error)):
                    self.failed[workspace] = why
                    _log.exception(
                        "the events of workspace %r cannot be sealed; trying again later",
                        workspace,
                        extra={"event": "seal_failed"},
                    )
        self.is_behind = is_behind
        await self._check_some()
        return made

    async def try_out(self) -> int:
        """Try to read and digest the events to be sealed next, and change nothing.

        Returns the number of workspaces with events to seal. Those that cannot be sealed are in `failed`.
        """
        self.failed.clear()
        workspaces = await self._ledger.unsealed(limit=_WORKSPACES)
        for workspace in workspaces:
            try:
                last = (await self._ledger.head(workspace)).seal
                events = await self._store.trail(
                    workspace, after=last.cursor if last else None, limit=AT_ONCE
                )
                await self._leaves(workspace, events, {})
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 -- each workspace has its own
                self.failed[workspace] = _in_one_line(error)
        return len(workspaces)

    async def check(self, workspace: str) -> Head:
        """The end of a workspace's chain. Raises `BrokenChain` if it does not continue from the last signed seal."""
        if self._signer is None:
            return await self._ledger.head(workspace)
        known = await self._heads.find(workspace)  # first: another process may seal in between
        head = await self._ledger.head(workspace)
        why = await self._broken(self._signer, workspace, known, head.seal)
        if why is None:
            self.refused.pop(workspace, None)
            return head
        broken = BrokenChain(
            f"The audit trail of workspace {workspace!r} is not signed any more: {why}. Somebody changed the store, or "
            "restored it from a backup, or this process has an old key. Look into it. If you replaced the key, start it with "
            "the new key; if the store is correct as it is: handraise audit accept"
        )
        if self.refused.get(workspace) != why:
            self.refused[workspace] = why
            _log.error("%s", broken, extra={"event": "seal_refused"})
        raise broken

    async def _follow(self, workspace: str) -> Head:
        """The same, and remember it: the seals that others signed since are known from now on."""
        head = await self.check(workspace)
        if self._signer is not None and head.seal is not None:
            known = await self._heads.find(workspace)
            if known is not None or head.seal.key_id == self._signer.key_id:
                await self._heads.put(workspace, HeadMark(head.seal.number, head.seal.digest))
        return head

    async def _check_some(self) -> None:
        """Check some of the signed chains, others each time: if all events were deleted, there is nothing to seal."""
        some = await self._heads.list_workspaces(after=self._checked, limit=_CHECKED_AT_ONCE)
        self._checked = some[-1] if len(some) == _CHECKED_AT_ONCE else ""
        for workspace in some:
            with suppress(BrokenChain, StoreUnavailable):
                await self._follow(workspace)

    async def _broken(
        self, signer: Signer, workspace: str, known: HeadMark | None, last: Seal | None
    ) -> str | None:
        """Why a chain does not continue from the known seal; None if it does."""
        if known == LOST_HEAD:
            return "the file that says what was signed last was missing when a server started"
        if (why := await self._of_another_key(signer, workspace, known, last)) is not None:
            return why
        if known is None:
            # The first check from here: a seal that names this key must be signed with it.
            return None if last is None or _is_genuine(signer, last) else f"seal {last.number} is forged"
        if last is None:
            return f"seal {known.number} was signed, and there is none now"
        if last.number < known.number:
            return f"seal {known.number} was signed, and the last one is {last.number} now"
        before = known
        while before.number < last.number:
            page = await self._ledger.seals(workspace, after=before.number, limit=_SEALS)
            if not page or page[0].number != before.number + 1:
                return await self._gone(signer, workspace, known)
            for seal in page:
                if seal.previous != before.digest:
                    return f"seal {seal.number} does not follow seal {before}, which was signed"
                if not _is_genuine(signer, seal):
                    return f"seal {seal.number} is forged"
                before = HeadMark(seal.number, seal.digest)
        if last.number == known.number and last.digest != known.digest:
            return f"seal {last.number} is not the one that was signed"
        return None

    async def _of_another_key(
        self, signer: Signer, workspace: str, known: HeadMark | None, last: Seal | None
    ) -> str | None:
        """Why nothing is signed after a new seal of another key, if this key has signed before.

        It was replaced, or somebody without a key appended a seal. None if this key takes over.
        """
        if (
            last is None
            or last.key_id == signer.key_id
            or (known is not None and last.number <= known.number)
        ):
            return None
        if not await self._ledger.has_signed(workspace, signer.key_id):
            return None
        return f"seal {last.number} is of the key {last.key_id}, after seals of this process's key {signer.key_id}"

    async def _gone(self, signer: Signer, workspace: str, known: HeadMark) -> str | None:
        """The seals after the known one are missing: valid only if a server with the same key deleted them."""
        newest = (await self._ledger.head(workspace)).seal
        signed_here = newest is not None and newest.key_id == signer.key_id and _is_genuine(signer, newest)
        if newest is not None and signed_here and newest.oldest > known.number:
            return None
        return f"seals after seal {known.number}, which was signed, are gone"

    async def seal(self, workspace: str) -> int:
        """Seal the events of a workspace; return the number of seals."""
        made = 0
        while await self._next(workspace):
            made += 1
        return made

    async def _next(self, workspace: str) -> bool:
        """Make one seal; False if there is nothing to seal, or another process must do it."""
        head = await self._follow(workspace)
        last = head.seal
        after = last.cursor if last else None
        events = await self._store.trail(workspace, after=after, limit=AT_ONCE)
        removals = await self._ledger.removals(workspace, seal=None, limit=AT_ONCE)
        if not (events or removals) or not await self._may_seal(workspace, last):
            return False
        number = last.number + 1 if last else 1
        salts = await self._ledger.salts(workspace, questions_in(events))
        leaves = await self._leaves(workspace, events, salts)
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
        return await _finish(self._append(seal, [each.number for each in removals]))

    async def _append(self, seal: Seal, removals: Sequence[int]) -> bool:
        """Append a seal and record that this process did; False if the store refused it."""
        if not await self._ledger.append(seal, removals=removals):
            return False
        if self._signer is not None:
            await self._heads.put(seal.workspace, HeadMark(seal.number, seal.digest))
        if self._appended is not None:
            await self._appended(seal)
        return True

    async def _may_seal(self, workspace: str, last: Seal | None) -> bool:
        """Whether this process may continue the chain: never unsigned after signed, nor with a replaced key."""
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
                extra={"event": "seal_left_to_others"},
            )
        return False

    async def _leaves(
        self, workspace: str, events: Sequence[Event | WorkspaceEvent], salts: Mapping[str, bytes]
    ) -> list[bytes]:
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

        return await asyncio.to_thread(digest)  # a thousand of them would block the event loop


class MemoryHeads:
    """The last signed seals, kept in memory. See `handraise.ports.SignedHeads`."""

    def __init__(self) -> None:
        self._heads: dict[str, HeadMark] = {}

    async def find(self, workspace: str) -> HeadMark | None:
        """The last seal; see the port."""
        return self._heads.get(workspace)

    async def put(self, workspace: str, head: HeadMark) -> None:
        """Store a later seal; see the port."""
        self._heads[workspace] = max(head, self._heads.get(workspace, head))

    async def reset(self, workspace: str, head: HeadMark | None) -> None:
        """Store this one; see the port."""
        self._heads.pop(workspace, None)
        if head is not None:
            self._heads[workspace] = head

    async def list_workspaces(self, *, after: str, limit: int) -> Sequence[str]:
        """Workspaces by name; see the port."""
        return sorted(each for each in self._heads if each > after)[:limit]


async def _finish(work: Coroutine[None, None, T]) -> T:
    """Do something, and finish it if this task is cancelled meanwhile, unless that takes too long."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=_FINISHED_WITHIN)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _is_genuine(signer: Signer, seal: Seal) -> bool:
    """Whether a seal that names this key is signed with it; seals of other keys cannot be checked here."""
    if seal.key_id != signer.key_id:
        return True
    return seal.signature is not None and signer.has_signed(seal.digest, seal.signature)


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def questions_in(events: Sequence[Event | WorkspaceEvent]) -> set[str]:
    """The questions that these events are about. An event of the workspace is about none."""
    return {event.question_id for event in events if event.question_id}


def asked_in(events: Sequence[Event | WorkspaceEvent]) -> set[str]:
    """The questions whose `asked` event is among these."""
    return {event.question_id for event in events if event.kind is EventKind.ASKED}


def signed(seal: Seal, signer: Signer) -> Seal:
    """The same seal with its signature."""
    return replace(seal, signature=signer.sign(seal.digest))
