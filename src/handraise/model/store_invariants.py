"""What holds between the rows of a store at any time, whatever was done to its questions: pure functions over rows.

A store decides about one question at a time. Nothing here is needed for that; these are the promises about several rows,
which no single decision can see. They are checked by `handraise doctor`, and at the end of every test that changes a store
at random.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from handraise.model.agreement import is_stranded
from handraise.model.events import SETTLING, Event, EventKind
from handraise.model.grants import Grant
from handraise.model.outcomes import Answered, Status
from handraise.model.questions import Aside, Question
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import tool_of
from handraise.model.urgency import urgency_of

Rule: TypeAlias = Literal[
    "visible", "one place", "copies", "follows", "one key", "events", "replaced", "remembered"
]

ADVICE: Mapping[Rule, str] = {
    "visible": "Put it back, or withdraw it: handraise withdraw {id}",
    "one place": "Withdraw it if it is pending: handraise withdraw {id}. Then report this as a bug.",
    "copies": "Its place in lists may be wrong. Withdraw it and ask again: handraise withdraw {id}. Report this as a bug.",
    "follows": "Withdraw it and ask again: handraise withdraw {id}. Report this as a bug.",
    "one key": "Withdraw the one that nobody needs, and report this as a bug.",
    "events": "Compare it with a backup: handraise history {id}. Somebody may have changed the store.",
    "replaced": "Report this as a bug.",
    "remembered": "Report this as a bug. A grant is ended with: handraise grants revoke",
}
"""What to do about a violation of each rule."""

CHECKED_EVENTS = SETTLING | {
    EventKind.ASKED,
    EventKind.ASKED_BACK,
    EventKind.ATTEMPTED,
    EventKind.CONSUMED,
    EventKind.JOINED,
    EventKind.NOTED,
    EventKind.REPLIED,
    EventKind.REPORTED,
    EventKind.TAKEN_BACK,
}
"""The events that a check reads."""
_WRITTEN = (EventKind.ASKED_BACK, EventKind.NOTED, EventKind.REPLIED)
_CLOSE = timedelta(milliseconds=1)
"""An engine that counts in fractions of a second may be this far from one that counts in microseconds."""
_SAME_RANK = 4
"""How much a rank changes with a second of the expiry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A question's place in the inbox of one recipient, with what is copied from the question."""

    question_id: str
    recipient: str
    main: bool
    open: bool
    step: int | None
    due_at: datetime | None
    unheard_at: datetime | None
    urgency: int
    topic_key: str | None
    follows: str | None
    asker: str
    conversation: str | None
    kind: str
    tool: str | None
    takes_votes: bool
    aside: tuple[Aside, ...] = ()
    taken_by: str | None
    taken_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRows:
    """Rows of one workspace, all of one moment. `others` are questions that those name, as far as they exist."""

    questions: Mapping[str, Question]
    others: Mapping[str, Question] = field(default_factory=dict)
    inbox: Sequence[InboxRow] = ()
    events: Sequence[Event] = ()
    """Those of the questions, of the kinds in `CHECKED_EVENTS`."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    standing_answers: Mapping[str, StandingAnswer] = field(default_factory=dict)
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    everybody: Collection[str] | None = None
    """Who sees a question that names nobody; None is anybody."""
    nothing_erased: bool = False
    """Whether nothing was ever erased. If something was, a grant or a standing answer may be gone with its question."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """A rule that rows break, and how it shows."""

    question_id: str
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.question_id} {self.text}"

    @property
    def advice(self) -> str:
        """What to do about it."""
        return ADVICE[self.rule].format(id=self.question_id)


def is_remembered(question: Question) -> bool:
    """Whether a grant or a standing answer answered it."""
    outcome = question.outcome
    return isinstance(outcome, Answered) and outcome.source in ("grant", "standing")


Broken: TypeAlias = Iterator[tuple[Rule, str]]


def violations(rows: StoreRows) -> list[Violation]:
    """Every broken promise of these rows."""
    places: dict[str, list[InboxRow]] = defaultdict(list)
    for row in rows.inbox:
        places[row.question_id].append(row)
    logged: dict[str, list[Event]] = defaultdict(list)
    for event in rows.events:
        logged[event.question_id].append(event)
    found = [
        Violation(each, "one place", "is in an inbox, and there is no such question")
        for each in places.keys() - rows.questions.keys()
    ]
    for question in rows.questions.values():
        place = places[question.id]
        for rule, text in (
            *_visible(question, place, rows),
            *_one_place(question, place),
            *(_copies(question, place) if question.status is Status.PENDING else ()),
            *_follows(question, rows),
            *_events(question, logged[question.id]),
            *_replaced(question, rows),
            *_remembered(question, logged[question.id], rows),
        ):
            found.append(Violation(question.id, rule, text))
    return sorted([*found, *_one_key(rows)])


def _visible(question: Question, place: Sequence[InboxRow], rows: StoreRows) -> Broken:
    """Somebody can see a pending question, or a time will come at which something happens."""
    if question.status is not Status.PENDING or any(row.due_at or row.unheard_at for row in place):
        return
    leader = _question(rows, question.follows)
    seen = question.follows is not None or any(row.open for row in place)
    if not seen or is_stranded(question, leader, rows.groups, rows.everybody):
        yield "visible", "is pending in nobody's inbox, and no time will change that"


def _one_place(question: Question, place: Sequence[InboxRow]) -> Broken:
    """A pending question has one row that stands for it, a settled one has none."""
    if question.status is not Status.PENDING:
        if place:
            yield "one place", f"is {question.status}, and in the inbox of {place[0].recipient}"
        return
    if (mains := sum(row.main for row in place)) != 1:
        yield "one place", f"is pending, and has {mains} main rows in the inbox"


def _copies(question: Question, place: Sequence[InboxRow]) -> Broken:
    """What the inbox has of a pending question is what follows from the question itself."""
    asked = set(question.recipients or ("*",)) | set(question.added)
    later = {name for step in question.steps for name in step.to} - asked if question.recipients else set()
    if place and {row.recipient for row in place} != asked | later:
        yield (
            "copies",
            f"is for {sorted(asked | later)}, and in the inbox of {sorted(r.recipient for r in place)}",
        )
    for row in place:
        for name, copied, derived in (
            ("asker", row.asker, question.asker),
            ("conversation", row.conversation, question.conversation),
            ("kind", row.kind, question.form.kind),
            ("tool", row.tool, tool_of(question)),
            ("takes_votes", row.takes_votes, question.takes_votes),
            ("aside", row.aside, question.aside),
            ("taken_by", row.taken_by, question.taken_by),
            ("taken_until", row.taken_until, question.taken_until),
            ("follows", row.follows, question.follows if row.main else None),
            (
                "topic_key",
                row.topic_key,
                question.topic_key if row.main and question.follows is None else None,
            ),
            ("open", row.open, _is_open(question, row)),
        ):
            if copied != derived:
                yield (
                    "copies",
                    f"has {name} {derived!r}, and in the inbox of {row.recipient} it is {copied!r}",
                )
        if abs(row.urgency - urgency_of(question)) > _SAME_RANK:
            yield (
                "copies",
                f"has the rank {urgency_of(question)}, and in the inbox of {row.recipient} {row.urgency}",
            )
        if not _is_same_time(row.due_at, question.due_at if row.main else None):
            yield (
                "copies",
                f"is due at {question.due_at}, and in the inbox of {row.recipient} at {row.due_at}",
            )
        # A sign of the asker puts the end off in the question alone; the sweep looks there before it closes anything.
        closes_at = question.closes_at if row.main else None
        if (row.unheard_at is None) is not (closes_at is None) or (
            row.unheard_at is not None and closes_at is not None and row.unheard_at > closes_at + _CLOSE
        ):
            yield (
                "copies",
                f"is closed at {closes_at}, and in the inbox of {row.recipient} at {row.unheard_at}",
            )


def _is_open(question: Question, row: InboxRow) -> bool:
    """Whether a recipient has a pending question in the inbox now, unless they set it aside."""
    if question.follows is not None:
        return False
    if row.step is not None:
        return row.step < question.steps_taken
    if question.stage is not None:
        # Who was asked besides is not one of a stage, and has it until the next stage is asked.
        return row.open if row.recipient in question.added else row.recipient in question.audience
    return True


def _follows(question: Question, rows: StoreRows) -> Broken:
    """A pending question follows an equal pending one, and never one that follows another."""
    if question.status is not Status.PENDING or question.follows is None:
        return
    leader = _question(rows, question.follows)
    if leader is None:
        yield "follows", f"follows {question.follows}, which does not exist"
    elif leader.status is not Status.PENDING:
        yield "follows", f"follows {leader.id}, which is {leader.status}"
    elif leader.follows is not None:
        yield "follows", f"follows {leader.id}, which follows {leader.follows}"
    elif leader.topic_key != question.topic_key:
        yield "follows", f"follows {leader.id}, which asks something else"


def _events(question: Question, events: Sequence[Event]) -> Broken:
    """One event for each transition, no more and no less."""
    kinds = Counter(event.kind for event in events)
    ended = sorted(kind.value for kind in kinds.elements() if kind in SETTLING)
    if ended != ([] if question.status is Status.PENDING else [question.status.value]):
        yield "events", f"is {question.status}, and its events say {ended}"
    for kind, number in (
        (EventKind.ASKED, 1),
        (EventKind.CONSUMED, int(question.consumed_at is not None)),
        (EventKind.REPORTED, int(question.report is not None)),
        (EventKind.TAKEN_BACK, int(question.taken_back_at is not None)),
    ):
        if kinds[kind] != number:
            yield "events", f"was {kind} {number} times by its row, and {kinds[kind]} times by its events"
    written = sum(kinds[kind] for kind in _WRITTEN)
    if written != question.thread:
        yield "events", f"has {question.thread} messages by its row, and {written} events of one"
    if kinds[EventKind.ATTEMPTED] + kinds[EventKind.EXHAUSTED] != question.attempts:
        yield (
            "events",
            f"has {question.attempts} attempts by its row, and {kinds[EventKind.ATTEMPTED]} events of one",
        )


def _replaced(question: Question, rows: StoreRows) -> Broken:
    """The question that replaced another one says so too."""
    new = _question(rows, question.replaced_by)
    if new is not None and new.replaces != question.id:
        yield "replaced", f"was replaced by {new.id}, which replaces {new.replaces}"


def _remembered(question: Question, events: Sequence[Event], rows: StoreRows) -> Broken:
    """The grant or the standing answer that answered a question exists, and was for it."""
    if not is_remembered(question):
        return
    records = [each.data for each in events if each.kind is EventKind.ANSWERED]
    record = records[0] if records and isinstance(records[0], dict) else {}
    if "grant" in record:
        name = str(record["grant"])
        grant = rows.grants.get(name)
        if grant is None and rows.nothing_erased:
            yield "remembered", f"was approved by the grant {name}, which does not exist"
        if grant is not None and (grant.asker, grant.tool) != (question.asker, tool_of(question)):
            yield "remembered", f"was approved by the grant {name}, which is for another asker or tool"
    elif (name := str(record.get("standing"))) not in rows.standing_answers and rows.nothing_erased:
        yield "remembered", f"was answered by the standing answer {name}, which does not exist"


def _one_key(rows: StoreRows) -> Iterator[Violation]:
    """A key names one question of its owner, whether it was posted or joined with it."""
    named: dict[tuple[str, str], str] = {}
    posted = [
        (question.key_owner, question.key, question.id)
        for question in {**rows.others, **rows.questions}.values()
        if question.key is not None
    ]
    joined = [
        (event.by or "", str(event.data.get("key")), event.question_id)
        for event in rows.events
        if event.kind is EventKind.JOINED and isinstance(event.data, dict)
    ]
    for owner, key, id_ in (*posted, *joined):
        if (other := named.setdefault((owner, key), id_)) != id_:
            yield Violation(id_, "one key", f"has the key {key!r} of {owner!r}, and so has {other}")


def _question(rows: StoreRows, id_: str | None) -> Question | None:
    return None if id_ is None else rows.questions.get(id_) or rows.others.get(id_)


def _is_same_time(one: datetime | None, other: datetime | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _CLOSE
