"""Between rows and the model's values, for the backends that speak SQL.

JSON columns are texts in both engines; only instants differ, so the functions take what turns one into a
`datetime`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

import pydantic_core

from handraise.backends.pagination import paged, read_cursor
from handraise.model.events import Event, EventKind
from handraise.model.forms import Approval, form_from_json, form_to_json
from handraise.model.grants import Grant
from handraise.model.identities import AgentKey, Link, Person, QuestionLink, Role, Session
from handraise.model.json_values import Json
from handraise.model.lifecycle import Move, NewGrant
from handraise.model.outcomes import Outcome, Status, outcome_of
from handraise.model.questions import Draft, Question, Vote, changed, posted
from handraise.model.seals import SALT
from handraise.model.statistics import Ending
from handraise.model.timelines import steps_from_json, steps_to_json
from handraise.model.workspace_events import Change, WorkspaceEvent, WorkspaceEventKind
from handraise.ports import MAX_EVENTS_SCANNED, Claim, Filter, Waiting, WaitingPage

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
        "trace": draft.trace,
        "recipients": _text(draft.recipients) if draft.recipients else "[]",
        "quorum": draft.quorum,
        "veto": draft.veto,
        "max_attempts": draft.max_attempts,
        "prompt": draft.prompt,
        "form": form_to_json(draft.form),
        "context": to_json(draft.context),
        "state": to_json(draft.state),
        "steps": _text(steps_to_json(draft.steps)) if draft.steps else None,
        "undo_for": draft.undo_for or None,
        "shared": draft.shared,
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
        "principals": _text(move.responder.principals),
        "record": _text(move.record),
        "ballot": move.ballot,
        "negative": move.negative,
        "channel": move.channel,
        "granting": to_json(_new_grant_json(move.new_grant)),
        "grant_id": move.grant_id,
    }


def grant_query(question: Question) -> dict[str, Any]:
    """The parameters that find a grant for the action that a question asks about."""
    form = question.form
    if not isinstance(form, Approval):
        raise TypeError(f"a grant answers an approval, not a form of kind {form.kind!r}")
    return {
        "workspace": question.workspace,
        "id": question.id,
        "asker": question.asker,
        "tool": form.action.tool,
        "digest": form.grant_digest(form.action, question.recipients),
        "conversation": question.conversation,
        "scopes": list(form.scopes),
    }


def page_query(where: Filter, *, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement whose index fits a filter best, and its parameters."""
    if where.conversation is not None:
        name = "pending_by_conversation"
    elif where.recipient is not None:
        name = "pending_by_recipient"
    elif where.asker is not None:
        name = "pending_by_asker"
    else:
        name = "pending_all"
    return name, {
        "workspace": where.workspace,
        "conversation": where.conversation,
        "asker": where.asker,
        "person": where.recipient.id if where.recipient else None,
        "principals": ["*", *where.recipient.principals] if where.recipient else [],
        "after": after or "",
        "limit": limit,
    }


def urgent_query(where: Filter, *, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The same for places in the order of urgency: one more says that there are more."""
    urgency, last = read_cursor(after)
    name, values = page_query(where, after=last, limit=limit + 1)
    if where.conversation is None and where.asker is not None:
        name = "pending_by_asker"
    return name.replace("pending", "urgent"), {**values, "urgency": urgency}


def waiting_page(rows: Sequence[Row], limit: int) -> WaitingPage:
    """A page of places in the order of urgency."""
    names = ("urgency", "id", "likeness", "asker", "conversation")
    return paged([Waiting(*(row[name] for name in names)) for row in rows], limit)


def settled_query(where: Filter, *, limit: int) -> dict[str, Any]:
    """The parameters of a page of settled questions besides its place: one more says that there are more."""
    return {
        "workspace": where.workspace,
        "conversation": where.conversation,
        "asker": where.asker,
        "person": where.recipient.id if where.recipient else None,
        "principals": list(where.recipient.principals) if where.recipient else [],
        "looked": MAX_EVENTS_SCANNED,
        "limit": limit + 1,
    }


def posted_question(draft: Draft, asked_at: datetime) -> Question:
    """The question that a draft has just become."""
    return posted(draft, asked_at)


def moved_question(move: Move, row: Row, instant: Instant) -> Question:
    """The question after an accepted move."""
    return changed(
        move.question,
        status=Status(row["status"]),
        attempts=row["attempts"],
        votes=_votes(row["votes"]),
        steps_taken=row["steps_taken"],
        stepped_at=None if row["stepped_at"] is None else instant(row["stepped_at"]),
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
        trace=row["trace"],
        undo_for=row["undo_for"] or 0.0,
        shared=bool(row["shared"]),
        recipients=() if row["recipients"] == "[]" else tuple(json.loads(row["recipients"])),
        quorum=row["quorum"],
        veto=bool(row["veto"]),
        max_attempts=row["max_attempts"],
        steps=() if row["steps"] is None else steps_from_json(json.loads(row["steps"])),
        asked_at=instant(row["asked_at"]),
        status=Status(row["status"]),
        attempts=row["attempts"],
        votes=_votes(row["votes"]),
        steps_taken=row["steps_taken"],
        stepped_at=None if row["stepped_at"] is None else instant(row["stepped_at"]),
        outcome=stored_outcome(row, instant),
        consumed_at=None if row["consumed_at"] is None else instant(row["consumed_at"]),
        taken_back_at=None if row["taken_back_at"] is None else instant(row["taken_back_at"]),
        unreached_at=None if row["unreached_at"] is None else instant(row["unreached_at"]),
        sent_at=None if row["sent_at"] is None else instant(row["sent_at"]),
        overdue=bool(row["overdue"]),
    )


def taken_back_data(reason: str | None) -> Json:
    """What the event of an approval that is taken back says besides who did it."""
    return None if reason is None else {"reason": reason}


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


def stored_trail_line(row: Row, cursor: str, instant: Instant) -> Event | WorkspaceEvent:
    """One line of the audit trail: an event of a question, or one of the workspace."""
    return stored_event(row, cursor, instant) if row["question_id"] else stored_change(row, cursor, instant)


def stored_change(row: Row, cursor: str, instant: Instant) -> WorkspaceEvent:
    """An event of a workspace."""
    return WorkspaceEvent(
        cursor=cursor,
        workspace=row["workspace"],
        kind=WorkspaceEventKind(row["kind"]),
        at=instant(row["at"]),
        by=row["actor"],
        data=from_json(row["data"]),
    )


def change_values(change: Change) -> dict[str, Any]:
    """An event of a workspace as the columns of its row."""
    return {
        "kind": change.kind.value,
        "actor": change.by,
        "data": to_json(change.stored(os.urandom(SALT))),
    }


def stored_ending(row: Row, instant: Instant) -> Ending:
    """How a question ended, in few words."""
    return Ending(
        asker=row["asker"],
        kind=row["form_kind"],
        status=Status(row["status"]),
        asked_at=instant(row["asked_at"]),
        settled_at=instant(row["settled_at"]),
        by=row["settled_by"],
        source=row["source"],
        channel=row["channel"],
        approved=None if row["approved"] is None else bool(row["approved"]),
        risk=row["risk"],
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


def stored_key(row: Row, instant: Instant) -> AgentKey:
    """A key of an agent."""
    return AgentKey(
        workspace=row["workspace"],
        id=row["id"],
        agent=row["agent"],
        created_at=instant(row["created_at"]),
        created_by=row["created_by"],
        last_used_at=None if row["last_used_at"] is None else instant(row["last_used_at"]),
        revoked_at=None if row["revoked_at"] is None else instant(row["revoked_at"]),
        revoked_by=row["revoked_by"],
    )


def stored_person(row: Row, instant: Instant) -> Person:
    """A person; `groups` is a JSON array."""
    return Person(
        workspace=row["workspace"],
        id=row["id"],
        name=row["name"],
        created_at=instant(row["created_at"]),
        email=row["email"],
        role=Role(row["role"]),
        groups=frozenset(json.loads(row["groups"])),
        signed_in_at=None if row["signed_in_at"] is None else instant(row["signed_in_at"]),
    )


def stored_groups(rows: Iterable[Row]) -> dict[str, Sequence[str]]:
    """Groups and their people, from a row for each place in one."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row["group_name"], []).append(row["person"])
    return dict(groups)


def recipients_among(rows: Iterable[Row]) -> frozenset[str] | None:
    """Names that a question can be for; None without the row which says that there are people at all."""
    found = {row["name"] for row in rows}
    return frozenset(found - {None}) if None in found else None


def stored_session(row: Row, instant: Instant) -> Session:
    """A session; its id and beginning are named so that its person's fit into the same row."""
    return Session(
        workspace=row["workspace"],
        id=row["session_id"],
        person=row["person"],
        how=row["how"],
        created_at=instant(row["opened_at"]),
        expires_at=instant(row["expires_at"]),
        vouched_by=row["vouched_by"],
    )


def stored_link(row: Row, instant: Instant) -> Link:
    """A link that works once."""
    return Link(
        workspace=row["workspace"],
        id=row["id"],
        person=row["person"],
        purpose=row["purpose"],
        created_at=instant(row["created_at"]),
        expires_at=instant(row["expires_at"]),
        vouched_by=row["vouched_by"],
    )


def stored_question_link(row: Row, instant: Instant) -> QuestionLink:
    """A link to one question; its id and beginning are named so that its person's fit into the same row."""
    return QuestionLink(
        workspace=row["workspace"],
        id=row["link_id"],
        question_id=row["question_id"],
        person=row["person"],
        channel=row["channel"],
        created_at=instant(row["made_at"]),
        created_by=row["created_by"],
        expires_at=instant(row["expires_at"]),
    )


def taken_claim(row: Row) -> Claim:
    """A claim that is ours, for the first time or once more."""
    return Claim(state="new" if row["turns"] == 1 else "again", made=row["made"], turn=row["turns"])


def refused_claim(row: Row, fingerprint: str) -> Claim:
    """A claim that is not ours, from what is there instead."""
    if row["fingerprint"] != fingerprint:
        return Claim(state="different", made=row["made"])
    if row["status"] is None:
        return Claim(state="busy", made=row["made"])
    return Claim(state="done", made=row["made"], status=row["status"], body=row["body"])


def to_json(value: Json) -> str | None:
    """The stored text of a JSON value; None is kept as null."""
    return None if value is None else _text(value)


def _text(value: Json) -> str:
    return pydantic_core.to_json(value).decode()  # six times as fast as `json.dumps`


def from_json(stored: str | None) -> Any:
    """The JSON value behind its stored text."""
    return None if stored is None else json.loads(stored)


def _new_grant_json(new_grant: NewGrant | None) -> Json:
    if new_grant is None:
        return None
    return {
        "id": new_grant.id,
        "scope": new_grant.scope,
        "tool": new_grant.tool,
        "digest": new_grant.digest,
        "lasts": new_grant.lasts.total_seconds(),
        "until": new_grant.until.isoformat() if new_grant.until else None,
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
