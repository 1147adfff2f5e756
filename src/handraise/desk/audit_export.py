"""Write the audit trail of a workspace into a file that `handraise.model.audit_verification` checks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from handraise.desk.sealer import AT_ONCE, BrokenChain, asked_in, questions_in
from handraise.model.audit_verification import FORMAT, end_digest, row_digest, rows_digest, seal_line
from handraise.model.errors import StoreUnavailable
from handraise.model.events import Event, EventKind
from handraise.model.json_values import Json
from handraise.model.questions import Ref
from handraise.model.replay import QuestionReplay, row_record
from handraise.model.seals import HeadMark, Seal, Signer, event_record, instant_text, removal_leaf
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import Ledger, Store

_SEALS = 20
_LOOSE = 1_000_000
_ROWS = 200
_LOOKS = 5


async def export_lines(
    store: Store,
    ledger: Ledger,
    workspace: str,
    signer: Signer | None = None,
    known: HeadMark | None = None,
) -> AsyncIterator[str]:
    """Every line of an export, from the oldest seal that is kept to the last one.

    `known` is a seal that was signed before. If it is not in the chain, this raises `BrokenChain`: then the end must not be
    signed either.
    """
    yield _text({"type": "export", "format": FORMAT, "workspace": workspace})
    trail = _Trail(store, workspace)
    last: Seal | None = None
    lives: dict[str, QuestionReplay] = {}
    seals = events = 0
    while page := await ledger.seals(workspace, after=last.number if last else 0, limit=_SEALS):
        for seal in page:
            if last is not None and seal.number != last.number + 1:
                raise StoreUnavailable("Seals were deleted during the export; export again.")
            if signer is not None and last is not None and seal.previous != last.digest:
                raise BrokenChain(f"Seal {seal.number} does not follow the one before. See: handraise doctor")
            last, seals = seal, seals + 1
            known = None if known == (seal.number, seal.digest) else known
            yield _text(seal_line(seal))
            async for covered in trail.upto(seal.cursor):
                for line in await _event_lines(ledger, workspace, covered):
                    events += 1
                    if question := line["record"]["question"]:
                        lives.setdefault(question, QuestionReplay()).take(line["record"])
                    yield _text(line)
            for removal in await ledger.removals(workspace, seal=seal.number, limit=AT_ONCE):
                yield _text({"type": "removal", "sealed": True, "record": removal.record})
    # A witness may see a later seal before the rest is written, which takes a while.
    now = (await ledger.head(workspace)).now
    rows: list[bytes] = []
    async for line in _question_lines(store, workspace, lives):
        rows.append(row_digest(line))
        yield _text(line)
    loose = await ledger.removals(workspace, seal=None, limit=_LOOSE)
    for removal in loose:
        yield _text({"type": "removal", "sealed": False, "record": removal.record})
    if known is not None:
        raise BrokenChain(f"Seal {known} was signed before, and is not in the store. See: handraise doctor")
    end: dict[str, Json] = {
        "type": "end",
        "workspace": workspace,
        "exported_at": instant_text(now),
        "seals": seals,
        "events": events,
        "head": last.digest.hex() if last else "",
        "loose": [removal_leaf(removal.record).hex() for removal in loose],
        "rows": rows_digest(rows).hex(),
        "key_id": signer.key_id if signer else None,
    }
    yield _text({**end, "signature": signer.sign(end_digest(end)).hex() if signer else None})


async def _question_lines(
    store: Store, workspace: str, lives: Mapping[str, QuestionReplay]
) -> AsyncIterator[dict[str, Any]]:
    """The rows of questions, with the events that no seal covers yet but that the rows include."""
    ids = list(lives)
    for place in range(0, len(ids), _ROWS):
        refs = [Ref(workspace, each) for each in ids[place : place + _ROWS]]
        for ref, question in zip(refs, await store.read(refs), strict=True):
            if question is None:
                continue  # it was removed, and a removal records that
            record = row_record(question)
            line: dict[str, Any] = {"type": "question", "record": record, "later": []}
            if lives[ref.id].find_inconsistency(record):
                line = await _moved_on(store, ref, lives[ref.id]) or line
            yield line


async def _moved_on(store: Store, ref: Ref, life: QuestionReplay) -> dict[str, Any] | None:
    """The row of a question and its events since the last seal, both read at the same time."""
    for _ in range(_LOOKS):
        (before,) = await store.read([ref])
        sealed = life.cursors
        later = [event_record(each, None) for each in await store.history(ref) if each.cursor not in sealed]
        (after,) = await store.read([ref])
        if before is not None and after is not None and row_record(before) == row_record(after):
            return {"type": "question", "record": row_record(after), "later": later}
    return None


class _Trail:
    """The events of a workspace, read up to one place after the other."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._after: str | None = None
        self._ahead: list[Event | WorkspaceEvent] = []
        self._over = False

    async def upto(self, cursor: str) -> AsyncIterator[Sequence[Event | WorkspaceEvent]]:
        """The events up to a place that have not been read yet."""
        end = _place(cursor)
        while True:
            if not self._ahead and not self._over:
                page = await self._store.trail(self._workspace, after=self._after, limit=AT_ONCE)
                self._ahead, self._over = list(page), not page
                self._after = page[-1].cursor if page else self._after
            taken = [event for event in self._ahead if _place(event.cursor) <= end]
            self._ahead = self._ahead[len(taken) :]
            if taken:
                yield taken
            if self._ahead or self._over:
                return


async def _event_lines(
    ledger: Ledger, workspace: str, events: Sequence[Event | WorkspaceEvent]
) -> list[dict[str, Any]]:
    salts = await ledger.salts(workspace, questions_in(events))
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


def _place(cursor: str) -> tuple[int, int]:
    *transaction, number = cursor.split(".")
    return int(transaction[0]) if transaction else 0, int(number)


def _text(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
