"""Converting rows to the model's values, for the SQL backends.

A value is read from the columns that have the same names as its fields. JSON columns are texts in all engines. Instants
and spans are Python values in PostgreSQL, and whole microseconds in SQLite.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import NoneType
from typing import Any, Protocol, TypeVar, get_args, get_type_hints

from handraise.backends.pagination import paged
from handraise.backends.sql.parameters import FOR_GOOD
from handraise.model.attachments import Attachment, attachments_from_json
from handraise.model.away import Away
from handraise.model.deliveries import Address, Delivery
from handraise.model.events import Event
from handraise.model.forms import AnyForm, form_from_json
from handraise.model.grants import Grant
from handraise.model.group_calendars import GroupCalendar, Shift, shifts_from_json
from handraise.model.identities import AgentKey, Link, Person, QuestionLink, Session
from handraise.model.json_values import Json
from handraise.model.outcomes import Outcome, Status, outcome_of
from handraise.model.passkey_signatures import Passkey
from handraise.model.pending_views import Order
from handraise.model.policy_versions import PolicyVersion, Suspension
from handraise.model.provisioned import Provisioned
from handraise.model.questions import Aside, Need, Question, Vote, changed, needs_from_json, restored
from handraise.model.reports import Report, report_of
from handraise.model.routing import Recent
from handraise.model.rulings import Ruling, ruling_from_json
from handraise.model.saved_views import SavedView
from handraise.model.seals import Hold, Removal, Seal
from handraise.model.standing_answers import StandingAnswer
from handraise.model.statistics import Ending
from handraise.model.stops import Stop
from handraise.model.store_invariants import InboxRow
from handraise.model.timelines import Step, steps_from_json
from handraise.model.urgency import rank_at
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import WorkspaceEvent
from handraise.ports import Claim, OutboxEntry, Waiting, WaitingPage
from handraise.ports.outbox import ChannelTrouble

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGEST = 32
_WORK_S = 0.005
"""How long rows are converted before others have their turn."""

NOT_STORED = frozenset({"url", "callback"})
"""The fields of a question that are not in its row: only a server knows its own address, and a callback is a delivery."""


class Row(Protocol):
    """What the rows of all drivers have in common."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a column."""
        ...


class RowReader(Protocol[T_co]):
    """Makes a value from its row. `known` are the fields that are not read from a column."""

    def __call__(self, row: Row, /, **known: Any) -> T_co:
        """Make the value."""
        ...


def instant(stored: datetime | int) -> datetime:
    """The instant that is stored."""
    return _EPOCH + timedelta(microseconds=stored) if isinstance(stored, int) else stored


def span(stored: timedelta | int) -> timedelta:
    """The span that is stored."""
    return timedelta(microseconds=stored) if isinstance(stored, int) else stored


def row_reader(kind: type[T], /, **columns: str | None) -> RowReader[T]:
    """A function that makes a dataclass from a row. A field has the column of its name, or the one that is given here.

    With None instead of a column, the caller passes the field. If the column is null, the field keeps its default.
    """
    fields_of = _fields_reader(kind, columns)
    return lambda row, /, **known: kind(**fields_of(row), **known)


def _fields_reader(kind: type, columns: Mapping[str, str | None]) -> Callable[[Row], dict[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    plan = [
        (
            each.name,
            column,
            _converter(hints[each.name]),
            None if each.default is MISSING else each.default,
        )
        for each in fields(kind)
        if (column := columns.get(each.name, each.name)) is not None
    ]
    as_they_are = [
        (name, column) for name, column, convert, default in plan if (convert, default) == (None, None)
    ]
    converted = [each for each in plan if each[2:] != (None, None)]

    def read(row: Row) -> dict[str, Any]:
        values = {name: row[column] for name, column in as_they_are}
        for name, column, convert, default in converted:
            stored = row[column]
            values[name] = default if stored is None else convert(stored) if convert else stored
        return values

    return read


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """The function that turns a column into a field of this type; None if no conversion is needed."""
    if hint not in _CONVERTERS and NoneType in get_args(hint):
        hint = get_args(hint)[0]
    return hint if isinstance(hint, type) and issubclass(hint, Enum) else _CONVERTERS.get(hint)


def _votes(stored: str) -> tuple[Vote, ...]:
    votes: dict[str, str] = json.loads(stored)
    return tuple(Vote(by, votes[by]) for by in sorted(votes))


def _aside(stored: str) -> tuple[Aside, ...]:
    until: dict[str, int] = json.loads(stored)
    return tuple(
        Aside(person, None if until[person] == FOR_GOOD else instant(until[person]))
        for person in sorted(until)
    )


_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    bool: bool,
    bytes: bytes,
    datetime: instant,
    Json: json.loads,
    dict[str, Json]: json.loads,
    AnyForm: form_from_json,
    frozenset[str]: lambda stored: frozenset(json.loads(stored)),
    tuple[str, ...]: lambda stored: tuple(json.loads(stored)),
    tuple[int, ...]: lambda stored: tuple(json.loads(stored)),
    tuple[Step, ...]: lambda stored: steps_from_json(json.loads(stored)),
    tuple[Vote, ...]: _votes,
    tuple[Aside, ...]: _aside,
    tuple[Need, ...]: lambda stored: needs_from_json(json.loads(stored)),
    tuple[Shift, ...]: lambda stored: shifts_from_json(json.loads(stored)),
    WorkingHours: WorkingHours.model_validate_json,
    Ruling: lambda stored: ruling_from_json(json.loads(stored)),
    tuple[Attachment, ...]: lambda stored: attachments_from_json(json.loads(stored)),
}

stored_address = row_reader(Address, to="destination")
stored_away = row_reader(Away, starts="away_from", until="away_until")
stored_calendar = row_reader(GroupCalendar)
stored_change = row_reader(WorkspaceEvent, by="actor", cursor=None)
stored_delivery = row_reader(Delivery, to="destination")
stored_ending = row_reader(Ending, kind="form_kind", by="settled_by")
stored_entry = row_reader(OutboxEntry)
stored_event = row_reader(Event, by="actor", cursor=None)
stored_grant = row_reader(Grant)
stored_hold = row_reader(Hold, by="actor")
stored_inbox_row = row_reader(InboxRow)
stored_key = row_reader(AgentKey)
stored_link = row_reader(Link)
stored_passkey = row_reader(Passkey)
stored_person = row_reader(Person)
stored_provisioned = row_reader(Provisioned)
stored_view = row_reader(SavedView)
stored_policy_version = row_reader(PolicyVersion, by="actor")
stored_suspension = row_reader(Suspension, by="actor")
stored_standing_answer = row_reader(StandingAnswer)
stored_stop = row_reader(Stop, by="actor")
stored_trouble = row_reader(ChannelTrouble, since="created_at")
# These two use different column names for what is also in the row of their person.
stored_question_link = row_reader(QuestionLink, id="link_id", created_at="made_at")
stored_session = row_reader(Session, id="session_id", created_at="opened_at")

_question_fields = _fields_reader(Question, dict.fromkeys(("outcome", "report", "overdue", *NOT_STORED)))
_read_removal = row_reader(Removal, by="actor", cursors=None)
_read_seal = row_reader(Seal, cursors=None, leaves=None)


def stored_question(row: Row) -> Question:
    """A question as it stands, from a row that also says what time it is."""
    question = restored(
        **_question_fields(row),
        outcome=stored_outcome(row),
        report=_stored_report(row),
        overdue=False,
        **dict.fromkeys(NOT_STORED),
    )
    due_at = question.due_at
    return (
        changed(question, overdue=True) if due_at is not None and due_at <= instant(row["now"]) else question
    )


async def stored_questions(rows: Sequence[Row]) -> list[Question]:
    """Questions from their rows; between large ones, the event loop does other things."""
    found: list[Question] = []
    until = time.monotonic() + _WORK_S
    for row in rows:
        found.append(stored_question(row))
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + _WORK_S
    return found


def stored_removal(row: Row) -> Removal:
    """The record that a question was removed."""
    return _read_removal(row, cursors=_listed(row["cursors"]))


def stored_seal(row: Row) -> Seal:
    """A seal; its leaves are digests, one after the other."""
    leaves = bytes(row["leaves"])
    digests = (leaves[place : place + _DIGEST] for place in range(0, len(leaves), _DIGEST))
    return _read_seal(row, cursors=_listed(row["cursors"]), leaves=tuple(digests))


def stored_recent(rows: Iterable[Row]) -> Recent:
    """The counts, from rows of recipient, asker and number."""
    recent = Recent.nothing()
    for row in rows:
        recent.note(row["recipient"], row["asker"], row["number"])
    return recent


def asked_of(row: Row) -> Json:
    """What was asked, from a question's row: its texts and values as they are stored."""
    as_it_is = "asker", "key", "conversation", "tool_call", "quorum", "max_attempts", "prompt", "undo_for"
    texts = "recipients", "form", "context", "state", "steps"
    return {
        **{name: row[name] for name in as_it_is},
        **{name: from_json(row[name]) for name in texts},
        "veto": bool(row["veto"]),
        # Left out without a policy: most questions have none of them.
        **{name: from_json(row[name]) for name in ("needs", "ruling") if row[name] is not None},
        **{
            name: row[name]
            for name in ("evidence", "replies", "replaces", "topic", "heartbeat")
            if row[name] is not None
        },
        **({} if row["attachments"] is None else {"attachments": from_json(row["attachments"])}),
    }


def waiting_page(rows: Sequence[Row], limit: int, order: Order, soon: int) -> WaitingPage:
    """A page of places in this order: what each of its walks has found, merged."""
    if order == "urgency":
        rows = sorted(rows, key=lambda row: (rank_at(row["urgency"], soon), row["id"]))[: limit + 1]
    names = ("urgency", "id", "likeness", "asker", "conversation")
    return paged([Waiting(*(row[name] for name in names)) for row in rows], limit, order, soon)


def as_it_stands(question: Question, row: Row) -> Question:
    """A question that was read before, with all that can have changed since, from the row of a pending one."""
    return changed(
        question,
        status=Status.PENDING,
        outcome=None,
        heard_at=None if row["heard_at"] is None else instant(row["heard_at"]),
        attempts=row["attempts"],
        thread=row["thread"],
        asked_back=row["asked_back"],
        replied=row["replied"],
        votes=() if row["votes"] is None else _votes(row["votes"]),
        missing=() if row["missing"] is None else tuple(json.loads(row["missing"])),
        steps_taken=row["steps_taken"],
        stepped_at=None if row["stepped_at"] is None else instant(row["stepped_at"]),
        follows=row["follows"],
        added=() if row["added"] is None else tuple(json.loads(row["added"])),
        aside=() if row["aside"] is None else _aside(row["aside"]),
        taken_by=row["taken_by"],
        taken_until=None if row["taken_until"] is None else instant(row["taken_until"]),
    )


def stored_outcome(row: Row) -> Outcome | None:
    """How a question ended, or None while it is pending."""
    if row["settled_at"] is None:
        return None
    return outcome_of(row["status"], instant(row["settled_at"]), from_json(row["outcome"]) or {})


def _stored_report(row: Row) -> Report | None:
    if row["reported_at"] is None:
        return None
    return report_of(instant(row["reported_at"]), json.loads(row["report"]))


def stored_trail_line(row: Row, cursor: str) -> Event | WorkspaceEvent:
    """One line of the audit trail: an event of a question, or one of the workspace."""
    return stored_event(row, cursor=cursor) if row["question_id"] else stored_change(row, cursor=cursor)


def stored_groups(rows: Iterable[Row]) -> dict[str, Sequence[str]]:
    """Groups and their people, from one row for each membership."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row["group_name"], []).append(row["person"])
    return dict(groups)


def recipients_among(rows: Iterable[Row]) -> frozenset[str] | None:
    """Names that a question can be for; None without the row that says that the workspace has people."""
    found = {row["name"] for row in rows}
    return frozenset(found - {None}) if None in found else None


def taken_claim(row: Row) -> Claim:
    """A claim that succeeded, the first time or again."""
    return Claim(state="new" if row["turns"] == 1 else "again", made=row["made"], turn=row["turns"])


def refused_claim(row: Row, fingerprint: str) -> Claim:
    """A claim that failed, made from the request that is there instead."""
    if row["fingerprint"] != fingerprint:
        return Claim(state="different", made=row["made"])
    if row["status"] is None:
        return Claim(state="busy", made=row["made"])
    return Claim(state="done", made=row["made"], status=row["status"], body=row["body"])


def from_json(stored: str | None) -> Any:
    """The JSON value of a stored text."""
    return None if stored is None else json.loads(stored)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
