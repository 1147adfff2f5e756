"""Between rows of the audit trail and the model's values, for the backends that speak SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from handraise.backends.row_mapping import Instant, Row, from_json
from handraise.model.json_values import Json
from handraise.model.seals import Hold, Removal, Seal
from handraise.ports import Head

_DIGEST = 32


def asked_of(row: Row) -> Json:
    """What was asked, in a question's row: its texts and values as they are stored."""
    return {
        "asker": row["asker"],
        "key": row["key"],
        "conversation": row["conversation"],
        "tool_call": row["tool_call"],
        "recipients": json.loads(row["recipients"]),
        "quorum": row["quorum"],
        "veto": bool(row["veto"]),
        "max_attempts": row["max_attempts"],
        "prompt": row["prompt"],
        "form": json.loads(row["form"]),
        "context": from_json(row["context"]),
        "state": from_json(row["state"]),
        "steps": from_json(row["steps"]),
        "undo_for": row["undo_for"],
    }


def continues(seal: Seal, head: Head, behind: Sequence[str]) -> bool:
    """Whether a seal goes on from the last one; `behind` are the events from there to its own end. See `Ledger.append`."""
    last = head.seal
    if last is not None and last.key_id is not None and seal.key_id is None:
        return False
    return (
        seal.number == (last.number + 1 if last else 1)
        and seal.cursors == tuple(behind)
        and (last.oldest if last else 1) <= seal.oldest <= min(head.oldest or seal.number, seal.number)
    )


def seal_values(seal: Seal) -> dict[str, Any]:
    """A seal as the columns of its row, except for what engines write differently."""
    return {
        "number": seal.number,
        "oldest": seal.oldest,
        "previous": seal.previous,
        "leaves": b"".join(seal.leaves),
        "cursors": ",".join(seal.cursors),
        "signature": seal.signature,
        "key_id": seal.key_id,
    }


def stored_seal(row: Row, cursor: str, instant: Instant) -> Seal:
    """A seal."""
    leaves = bytes(row["leaves"])
    return Seal(
        workspace=row["workspace"],
        number=row["number"],
        oldest=row["oldest"],
        previous=bytes(row["previous"]),
        sealed_at=instant(row["sealed_at"]),
        cursor=cursor,
        cursors=_listed(row["cursors"]),
        leaves=tuple(leaves[place : place + _DIGEST] for place in range(0, len(leaves), _DIGEST)),
        key_id=row["key_id"],
        signature=None if row["signature"] is None else bytes(row["signature"]),
    )


def stored_removal(row: Row, instant: Instant) -> Removal:
    """That a question is gone."""
    return Removal(
        number=row["number"],
        question_id=row["question_id"],
        what=row["what"],
        at=instant(row["at"]),
        by=row["actor"],
        cursors=_listed(row["cursors"]),
    )


def stored_hold(row: Row, instant: Instant) -> Hold:
    """A hold."""
    return Hold(
        workspace=row["workspace"],
        name=row["name"],
        question_id=row["question_id"],
        reason=row["reason"],
        since=instant(row["since"]),
        by=row["actor"],
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
