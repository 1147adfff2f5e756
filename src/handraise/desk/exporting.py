"""Writing the audit trail of a workspace into a file that `handraise.model.verifying` checks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from handraise.desk.sealing import AT_ONCE, asked_in
from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.json_values import Json
from handraise.model.sealing import Seal, Signer, event_record, instant_text, removal_leaf
from handraise.model.verifying import FORMAT, end_digest, seal_line
from handraise.ports import Ledger, Store

_SEALS = 20
_LOOSE = 1_000_000


async def export_lines(
    store: Store, ledger: Ledger, workspace: str, signer: Signer | None = None
) -> AsyncIterator[str]:
    """Every line of an export, from the oldest seal that is kept to the last one."""
    yield _text({"type": "export", "format": FORMAT, "workspace": workspace})
    feed = _Feed(store, workspace)
    last: Seal | None = None
    seals = events = 0
    while page := await ledger.seals(workspace, after=last.number if last else 0, limit=_SEALS):
        for seal in page:
            if last is not None and seal.number != last.number + 1:
                raise StoreUnavailable("Seals were let go while they were exported; export again.")
            last, seals = seal, seals + 1
            yield _text(seal_line(seal))
            async for covered in feed.upto(seal.cursor):
                for line in await _event_lines(ledger, workspace, covered):
                    events += 1
                    yield _text(line)
            for removal in await ledger.removals(workspace, seal=seal.number, limit=AT_ONCE):
                yield _text({"type": "removal", "sealed": True, "record": removal.record})
    loose = await ledger.removals(workspace, seal=None, limit=_LOOSE)
    for removal in loose:
        yield _text({"type": "removal", "sealed": False, "record": removal.record})
    now = (await ledger.head(workspace)).now
    end: dict[str, Json] = {
        "type": "end",
        "workspace": workspace,
        "exported_at": instant_text(now),
        "seals": seals,
        "events": events,
        "head": last.digest.hex() if last else "",
        "loose": [removal_leaf(removal.record).hex() for removal in loose],
        "key_id": signer.key_id if signer else None,
    }
    yield _text({**end, "signature": signer.sign(end_digest(end)).hex() if signer else None})


class _Feed:
    """The events of a workspace, taken up to one place after the other."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._after: str | None = None
        self._ahead: list[Event] = []
        self._over = False

    async def upto(self, cursor: str) -> AsyncIterator[Sequence[Event]]:
        """What is there up to a place and has not been taken."""
        end = _place(cursor)
        while True:
            if not self._ahead and not self._over:
                page = await self._store.feed(self._workspace, after=self._after, limit=AT_ONCE)
                self._ahead, self._over = list(page), not page
                self._after = page[-1].cursor if page else self._after
            taken = [event for event in self._ahead if _place(event.cursor) <= end]
            self._ahead = self._ahead[len(taken) :]
            if taken:
                yield taken
            if self._ahead or self._over:
                return


async def _event_lines(ledger: Ledger, workspace: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    salts = await ledger.salts(workspace, {event.question_id for event in events})
    asked = await ledger.asked(workspace, asked_in(events))
    return [
        {
            "type": "event",
            "salt": salts.get(event.question_id, b"").hex(),
            "record": event_record(
                event, asked.get(event.question_id) if event.kind is EventKind.ASKED else None
            ),
        }
        for event in events
    ]


def _place(cursor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in cursor.split("."))


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
