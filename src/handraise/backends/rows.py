"""Between rows and the model's values, for the backends that speak SQL.

JSON columns are texts in both engines; only instants differ, so the functions take what turns one into a
`datetime`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from handraise.model.events import Event, EventKind
from handraise.model.forms import form_from_json, form_to_json
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import Granting, Move
from handraise.model.outcomes import Outcome, Status, outcome_of
from handraise.model.questions import Draft, Question, Vote
from handraise.model.timelines import steps_from_json, steps_to_json
from handraise.ports import Filter

Instant = Callable[[Any], datetime]


class Row(Protocol):
    """What both drivers' rows have in common."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a column."""
        ...


def draft_values(draft: Draft) -> dict[str, Any]:
    """A draft as the columns of its row."""
    return {
        "workspace": draft.workspace,
        "id": draft.id,
        "asker": draft.asker,
        "key": draft.key,
        "conversation": draft.conversation,
        "tool_call": draft.tool_call,
        "recipients": json.dumps(draft.recipients) if draft.recipients else "[]",
        "need": draft.need,
        "veto": draft.veto,
        "max_attempts": draft.max_attempts,
        "prompt": draft.prompt,
        "form": form_to_json(draft.form),
        "context": to_json(draft.context),
        "state": to_json(draft.state),
        "steps": json.dumps(steps_to_json(draft.steps)) if draft.steps else None,
        "expire_after": draft.steps[-1].after.total_seconds()
        if draft.steps and draft.steps[-1].ends
        else None,
    }


def move_values(move: Move) -> dict[str, Any]:
    """A move as the parameters of the statement that decides it."""
    return {
        "workspace": move.question.workspace,
        "id": move.question.id,
        "kind": move.kind,
        "actor": move.by,
        "principals": json.dumps(move.responder.principals),
        "record": json.dumps(move.record),
        "ballot": move.ballot,
        "negative": move.negative,
        "channel": move.channel,
        "granting": to_json(_granting_json(move.granting)),
        "grant_id": move.grant_id,
    }


def page_query(narrow: Filter, *, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement whose index fits a filter best, and its parameters."""
    if narrow.conversation is not None:
        name = "pending_by_conversation"
    elif narrow.recipient is not None:
        name = "pending_by_recipient"
    elif narrow.asker is not None:
        name = "pending_by_asker"
    else:
        name = "pending_all"
    return name, {
        "workspace": narrow.workspace,
        "conversation": narrow.conversation,
        "asker": narrow.asker,
        "person": narrow.recipient.id if narrow.recipient else None,
        "principals": ["*", *narrow.recipient.principals] if narrow.recipient else [],
        "after": after or "",
        "limit": limit,
    }


def posted_question(draft: Draft, asked_at: datetime) -> Question:
    """The question that a draft has just become."""
    values = {name: getattr(draft, name) for name in Draft.__dataclass_fields__}
    return Question(**values, asked_at=asked_at)


def moved_question(move: Move, row: Row, instant: Instant) -> Question:
    """The question after an accepted move."""
    return replace(
        move.question,
        status=Status(row["status"]),
        attempts=row["attempts"],
        votes=_votes(row["votes"]),
        steps_taken=row["steps_taken"],
        outcome=_outcome(row, move.record, instant),
    )


def stored_question(row: Row, instant: Instant) -> Question:
    """A question as it stands."""
    return Question(
        id=row["id"],
        workspace=row["workspace"],
        asker=row["asker"],
        prompt=row["prompt"],
        form=form_from_json(row["form"]),
        context=from_json(row["context"]),
        state=from_json(row["state"]),
        key=row["key"],
        conversation=row["conversation"],
        tool_call=row["tool_call"],
        recipients=() if row["recipients"] == "[]" else tuple(json.loads(row["recipients"])),
        need=row["need"],
        veto=bool(row["veto"]),
        max_attempts=row["max_attempts"],
        steps=() if row["steps"] is None else steps_from_json(json.loads(row["steps"])),
        asked_at=instant(row["asked_at"]),
        status=Status(row["status"]),
        attempts=row["attempts"],
        votes=_votes(row["votes"]),
        steps_taken=row["steps_taken"],
        outcome=stored_outcome(row, instant),
        consumed_at=None if row["consumed_at"] is None else instant(row["consumed_at"]),
        overdue=bool(row["overdue"]),
    )


def stored_outcome(row: Row, instant: Instant) -> Outcome | None:
    """How a question ended, or None while it is pending."""
    return _outcome(row, from_json(row["outcome"]), instant)


def stored_event(row: Row, cursor: str, instant: Instant) -> Event:
    """One line of history."""
    return Event(
        cursor=cursor,
        workspace=row["workspace"],
        question_id=row["question_id"],
        kind=EventKind(row["kind"]),
        at=instant(row["at"]),
        by=row["actor"],
        channel=row["channel"],
        data=from_json(row["data"]),
    )


def stored_grant(row: Row, instant: Instant) -> Grant:
    """A remembered approval."""
    return Grant(
        id=row["id"],
        workspace=row["workspace"],
        asker=row["asker"],
        tool=row["tool"],
        digest=row["digest"],
        scope=row["scope"],
        conversation=row["conversation"],
        granted_by=row["granted_by"],
        question_id=row["question_id"],
        created_at=instant(row["created_at"]),
        expires_at=instant(row["expires_at"]),
        revoked_at=None if row["revoked_at"] is None else instant(row["revoked_at"]),
        revoked_by=row["revoked_by"],
    )


def to_json(value: Json) -> str | None:
    """The stored text of a JSON value; None is kept as null."""
    return None if value is None else json.dumps(value)


def from_json(stored: str | None) -> Any:
    """The JSON value behind its stored text."""
    return None if stored is None else json.loads(stored)


def _granting_json(granting: Granting | None) -> Json:
    if granting is None:
        return None
    return {
        "id": granting.id,
        "scope": granting.scope,
        "tool": granting.tool,
        "digest": granting.digest,
        "lasts": granting.lasts.total_seconds(),
        "until": granting.until.isoformat() if granting.until else None,
    }


def _outcome(row: Row, record: dict[str, Json] | None, instant: Instant) -> Outcome | None:
    if row["settled_at"] is None:
        return None
    return outcome_of(row["status"], instant(row["settled_at"]), record or {})


def _votes(stored: str | None) -> tuple[Vote, ...]:
    if stored is None:
        return ()
    votes: dict[str, str] = json.loads(stored)
    return tuple(Vote(by, votes[by]) for by in sorted(votes))
