"""The records that a server returns, and back to values at the client."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Literal

import pydantic

from handraise.model.attachments import Attachment
from handraise.model.durations import SPAN_PATTERN, WORKING_PATTERN, seconds_of
from handraise.model.events import Event, EventKind
from handraise.model.forms import AnyForm, Scope
from handraise.model.grants import Grant
from handraise.model.identities import AgentKey, Person, Role
from handraise.model.outcomes import Outcome, Source, Status, outcome_of
from handraise.model.pending_views import VIEWS, ViewCounts
from handraise.model.questions import Aside, Need, Question, Replies, RequiredEvidence, Vote
from handraise.model.reports import Report
from handraise.model.rulings import Effect, RuleMode, Ruling, ruling_from_json
from handraise.model.standing_answers import StandingAnswer
from handraise.model.thread_messages import MessageKind, ThreadMessage
from handraise.model.timelines import Escalation, Timeline, steps_of
from handraise.model.workspace_events import WorkspaceEvent, WorkspaceEventKind
from handraise.ports import Durability, Recovered
from handraise.wire.working_time import noted_working_time, span_in, working_words


class Record(pydantic.BaseModel):
    """A record on the wire. A reader ignores unknown fields: a newer server or client may send more."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")


def _seconds(span: Any) -> Any:
    return seconds_of(span) if isinstance(span, str) else span


Seconds = Annotated[
    float,
    pydantic.BeforeValidator(
        _seconds,
        json_schema_input_type=float | Annotated[str, pydantic.Field(pattern=SPAN_PATTERN, examples=["2h"])],
    ),
]
"""A span in seconds; a sender may also write "90s", "10m", "2h", "3d" or "1h30m"."""


StepSeconds = Annotated[
    float,
    pydantic.BeforeValidator(
        _seconds,
        json_schema_input_type=float
        | Annotated[
            str, pydantic.Field(pattern=f"{SPAN_PATTERN}|{WORKING_PATTERN}", examples=["2 working hours"])
        ],
    ),
]
"""A span in seconds; a sender may also write "2h" or "2 working hours"."""


class EscalationRecord(Record):
    """After this many seconds, others may answer too."""

    after: StepSeconds
    to: tuple[str, ...]


class TimelineRecord(Record):
    """What happens while nobody answers; times are in seconds and count from when the question is asked.

    A sender may write working time, such as "2 working hours". Then `working` has these words, by the place where they
    were written: `remind.0`, `escalate.0` or `expire`.
    """

    remind: tuple[StepSeconds, ...] = ()
    escalate: tuple[EscalationRecord, ...] = ()
    expire: StepSeconds | None = None
    default: Any = None
    working: dict[str, str] | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _note_working(cls, given: Any) -> Any:
        return noted_working_time(given) if isinstance(given, dict) else given

    @classmethod
    def of(cls, timeline: Timeline) -> TimelineRecord:
        """The record of a timeline."""
        return cls(
            remind=tuple(span.total_seconds() for span in timeline.remind),
            escalate=tuple(
                EscalationRecord(after=each.after.total_seconds(), to=each.to) for each in timeline.escalate
            ),
            expire=None if timeline.expire is None else timeline.expire.total_seconds(),
            default=timeline.default,
            working=working_words(timeline) or None,
        )

    def timeline(self) -> Timeline:
        """The timeline of the record. Raises `OverflowError` for a duration that is too long."""
        return Timeline(
            remind=tuple(
                span_in(f"remind.{place}", span, self.working or {}) for place, span in enumerate(self.remind)
            ),
            escalate=tuple(
                Escalation(after=span_in(f"escalate.{place}", each.after, self.working or {}), to=each.to)
                for place, each in enumerate(self.escalate)
            ),
            expire=None if self.expire is None else span_in("expire", self.expire, self.working or {}),
            default=self.default,
        )


class OutcomeRecord(Record):
    """How a question ended. `value`, `source` and `evidence` are set if it was answered."""

    status: Literal["answered", "declined", "expired", "withdrawn", "exhausted", "returned"]
    at: datetime
    by: str | None = None
    value: Any = None
    source: Source | None = None
    reason: str | None = None
    channel: str | None = None
    evidence: str | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> OutcomeRecord:
        """The record of an outcome."""
        names = ("at", "by", "value", "source", "reason", "channel", "evidence")
        return cls(
            status=outcome.status.value,
            **{name: getattr(outcome, name) for name in names if hasattr(outcome, name)},
        )

    def outcome(self) -> Outcome:
        """The outcome of the record."""
        record = self.model_dump(exclude_none=True, exclude={"status", "at", "value"})
        return outcome_of(self.status, self.at, {**record, "value": self.value})


class AsideRecord(Record):
    """Who does not want a question in their inbox, and until when; null is for good."""

    person: str
    until: datetime | None = None


class VoteRecord(Record):
    """One person's accepted answer if several people must agree. Equal ballots agree.

    The value and the reason are told once the question has ended, if it is read by itself.
    """

    by: str
    ballot: str
    value: Any = None
    reason: str | None = None


class NeedRecord(Record):
    """How many of these people and groups must be among those who agree, and in which stage they are asked."""

    people: tuple[str, ...]
    count: int = 1
    stage: int = 0


class MatchRecord(Record):
    """A rule of the policy that matched. `failed` means that its expression could not be evaluated."""

    rule: str
    effect: Effect
    mode: RuleMode = "enforce"
    failed: bool = False


class RulingRecord(Record):
    """What the workspace's policy decided when the question was posted: its version and the rules that matched.

    `asked` has what the asker had asked for, for each part that the policy changed. `checked` is set if the question is
    a spot check of a rule that would have allowed it. `names_people` says that the policy named who answers. `close_orphans`
    is after how many seconds the policy withdraws it if nobody waits for the answer. `standing` is set if it is a spot check
    of the standing answer with that id. Without a policy, `version` is 0.
    """

    version: int
    matches: tuple[MatchRecord, ...] = ()
    asked: dict[str, Any] = {}
    checked: str | None = None
    names_people: bool = False
    standing: str | None = None
    close_orphans: float | None = None

    @classmethod
    def of(cls, ruling: Ruling) -> RulingRecord:
        """The record of a ruling."""
        return cls.model_validate(ruling.to_json())


class ReportRecord(Record):
    """What came of the answer, in the asker's own words. Nobody has checked them."""

    ok: bool
    text: str
    link: str | None = None
    details: Any = None
    at: datetime

    @classmethod
    def of(cls, report: Report) -> ReportRecord:
        """The record of a report."""
        return cls(**{each.name: getattr(report, each.name) for each in fields(report)})

    def report(self) -> Report:
        """The report of the record."""
        return Report(**dict(self))


LEFT_OUT = frozenset({"overdue", "callback"})
"""The fields of a question that are not sent: only a store and its desk use them."""
_MADE_OVER = frozenset({"state", "steps", "votes", "outcome", "report", "ruling", "needs", "aside"})
_AS_THEY_ARE = tuple(
    each.name for each in fields(Question) if each.name not in LEFT_OUT and each.name not in _MADE_OVER
)


class QuestionRecord(Record):
    """A question and its current state. The field `state` is private to the asker: nobody else sees it."""

    id: str
    workspace: str
    asker: str
    prompt: str
    form: AnyForm
    context: Any = None
    state: Any = None
    key: str | None = None
    conversation: str | None = None
    tool_call: str | None = None
    trace: str | None = None
    recipients: tuple[str, ...] = ()
    audience: tuple[str, ...] = ()
    quorum: int = 1
    veto: bool = False
    max_attempts: int | None = None
    undo_for: float = 0.0
    heartbeat: float | None = None
    shared: bool = False
    replies: Replies | None = None
    replaces: str | None = None
    topic: str | None = None
    added: tuple[str, ...] = ()
    needs: tuple[NeedRecord, ...] = ()
    evidence: RequiredEvidence | None = None
    ruling: RulingRecord | None = None
    timeline: TimelineRecord | None = None
    asked_at: datetime
    expires_at: datetime | None = None
    due_at: datetime | None = None
    status: Status
    heard_at: datetime | None = None
    attempts: int = 0
    votes: tuple[VoteRecord, ...] = ()
    missing: tuple[int, ...] = ()
    thread: int = 0
    asked_back: int = 0
    replied: int = 0
    steps_taken: int = 0
    stepped_at: datetime | None = None
    taken_by: str | None = None
    taken_until: datetime | None = None
    aside: tuple[AsideRecord, ...] = ()
    follows: str | None = None
    replaced_by: str | None = None
    outcome: OutcomeRecord | None = None
    consumed_at: datetime | None = None
    taken_back_at: datetime | None = None
    report: ReportRecord | None = None
    unreached_at: datetime | None = None
    sent_at: datetime | None = None
    url: str | None = None
    attachments: tuple[Attachment, ...] = ()

    @classmethod
    def of(cls, question: Question, *, with_state: bool) -> QuestionRecord:
        """The record of a question."""
        timeline, outcome = question.timeline, question.outcome
        return cls(
            **{name: getattr(question, name) for name in (*_AS_THEY_ARE, "audience", "expires_at", "due_at")},
            state=question.state if with_state else None,
            timeline=None if timeline is None else TimelineRecord.of(timeline),
            aside=tuple(AsideRecord(person=each.person, until=each.until) for each in question.aside),
            votes=tuple(
                VoteRecord(by=vote.by, ballot=vote.ballot, value=vote.value, reason=vote.reason)
                for vote in question.votes
            ),
            outcome=None if outcome is None else OutcomeRecord.of(outcome),
            report=None if question.report is None else ReportRecord.of(question.report),
            needs=tuple(
                NeedRecord(people=each.people, count=each.count, stage=each.stage) for each in question.needs
            ),
            ruling=None if question.ruling is None else RulingRecord.of(question.ruling),
        )

    def question(self) -> Question:
        """The question of the record."""
        return Question(
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            state=self.state,
            steps=() if self.timeline is None else steps_of(self.timeline.timeline()),
            aside=tuple(Aside(each.person, each.until) for each in self.aside),
            votes=tuple(Vote(vote.by, vote.ballot, vote.value, vote.reason) for vote in self.votes),
            outcome=None if self.outcome is None else self.outcome.outcome(),
            report=None if self.report is None else self.report.report(),
            needs=tuple(Need(each.people, each.count, each.stage) for each in self.needs),
            ruling=None if self.ruling is None else ruling_from_json(self.ruling.model_dump()),
        )


class QuestionPage(Record):
    """Some questions; `next` is the `after` of the next page, if there may be one."""

    items: tuple[QuestionRecord, ...]
    next: str | None = None


class OutcomeState(Record):
    """The status of one question: pending without an outcome, or settled with one."""

    id: str
    status: Status
    outcome: OutcomeRecord | None = None


class OutcomeStates(Record):
    """The requested questions that are settled, and those that do not exist."""

    settled: tuple[OutcomeState, ...] = ()
    unknown: tuple[str, ...] = ()


class EventRecord(Record):
    """One event of a question's history."""

    cursor: str
    workspace: str
    question_id: str
    kind: EventKind
    at: datetime
    by: str | None = None
    channel: str | None = None
    data: Any = None

    @classmethod
    def of(cls, event: Event) -> EventRecord:
        """The record of an event."""
        return cls(**{name: getattr(event, name) for name in Event.__dataclass_fields__})

    def event(self) -> Event:
        """The event of the record."""
        return Event(**dict(self))


class MessageRecord(Record):
    """One message of a question's thread. An agent gets notes without their text: they are not for the asker."""

    number: int
    kind: MessageKind
    by: str
    at: datetime
    text: str
    channel: str | None = None
    attachments: tuple[Attachment, ...] = ()

    @classmethod
    def of(cls, message: ThreadMessage) -> MessageRecord:
        """The record of a message."""
        return cls(**{each.name: getattr(message, each.name) for each in fields(message)})


class Thread(Record):
    """All messages that people and the asker have written about a question, oldest first."""

    items: tuple[MessageRecord, ...]


class AttachmentRecord(Record):
    """A file that was uploaded. `digest` is the SHA-256 of its bytes in hexadecimal."""

    name: str
    media_type: str
    size: int
    digest: str


class EventPage(Record):
    """Some events in order; `next` is the cursor to continue from, even if no event since then is for the caller."""

    items: tuple[EventRecord, ...]
    next: str | None = None


class WorkspaceEventRecord(Record):
    """A change in the workspace that is about no question: who made it, and what is different."""

    cursor: str
    kind: WorkspaceEventKind
    at: datetime
    by: str | None = None
    details: Any = None

    @classmethod
    def of(cls, event: WorkspaceEvent) -> WorkspaceEventRecord:
        """The record of an event."""
        return cls.model_validate(event, from_attributes=True)


class WorkspaceEventPage(Record):
    """Some events of the workspace in order; `next` is the cursor to continue from."""

    items: tuple[WorkspaceEventRecord, ...]
    next: str | None = None


class ActionRecord(Record):
    """An approved action, to be executed now."""

    tool: str
    arguments: dict[str, Any]


class ClaimedRecord(Record):
    """Whether the caller may show the question now."""

    claimed: bool


class GrantRecord(Record):
    """A remembered approval."""

    id: str
    workspace: str
    asker: str
    tool: str
    digest: str
    scope: Scope
    conversation: str | None = None
    granted_by: str
    question_id: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @classmethod
    def of(cls, grant: Grant) -> GrantRecord:
        """The record of a grant."""
        return cls.model_validate(grant, from_attributes=True)

    def grant(self) -> Grant:
        """The grant of the record."""
        return Grant(**dict(self))


class GrantPage(Record):
    """Some grants in the order of their ids; `next` is the `after` of the next page."""

    items: tuple[GrantRecord, ...]
    next: str | None = None


class StandingAnswerRecord(Record):
    """An answer that a person keeps for a topic."""

    id: str
    workspace: str
    topic: str
    value: Any
    given_by: str
    question_id: str
    created_at: datetime
    expires_at: datetime
    spot_check: float
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    contradicted_in: str | None = None

    @classmethod
    def of(cls, standing: StandingAnswer) -> StandingAnswerRecord:
        """The record of a standing answer."""
        return cls.model_validate(standing, from_attributes=True)

    def standing_answer(self) -> StandingAnswer:
        """The standing answer of the record."""
        return StandingAnswer(**dict(self))


class StandingAnswerPage(Record):
    """Some standing answers in the order of their ids; `next` is the `after` of the next page."""

    items: tuple[StandingAnswerRecord, ...]
    next: str | None = None


class RecoveredRecord(Record):
    """The result of a recovery."""

    expired: int
    live: int

    def recovered(self) -> Recovered:
        """The value of the record."""
        return Recovered(**dict(self))


class ViewCountsRecord(Record):
    """How many questions you have in your inbox, and in each view of it; each number is at most 500."""

    waiting: int
    urgent: int
    approvals: int
    mine: int
    vote_missing: int
    agents_turn: int
    snoozed: int
    more: bool = pydantic.Field(description="not all questions were looked at, so there may be others")

    @classmethod
    def of(cls, counts: ViewCounts) -> ViewCountsRecord:
        """The record of these numbers."""
        return cls(waiting=counts.waiting, more=counts.more, **{name: counts.views[name] for name in VIEWS})

    def counts(self) -> ViewCounts:
        """The numbers."""
        return ViewCounts(self.waiting, {name: getattr(self, name) for name in VIEWS}, self.more)


class RunDueRecord(Record):
    """How many questions a sweep settled."""

    settled: int


class HeartbeatsRecord(Record):
    """The heartbeats in seconds, by id, of those questions that are pending, are the agent's own, and have one."""

    heartbeats: dict[str, float]


class WithdrawnRecord(Record):
    """How many questions were withdrawn."""

    withdrawn: int


class DurabilityRecord(Record):
    """Which failures an acknowledged write survives, and the settings that this depends on."""

    survives: str
    settings: dict[str, str]

    def durability(self) -> Durability:
        """The value of the record."""
        return Durability(**dict(self))


class CallerRecord(Record):
    """Who the caller is: an agent, a person, a reader or an administering program, and only one of them."""

    workspace: str
    agent: str | None = None
    person: str | None = None
    reader: str | None = None
    admin_token: str | None = None
    role: Role | None = None


class StatisticsRecord(Record):
    """How a workspace answered since a time, which is later than requested if more questions ended than are counted.

    `ended` holds the number for each status. The times are for `answered_by_people`: half of them took at
    most `median_seconds`, nine of ten at most `ninetieth_seconds`. `failed_after_approval` is how many actions were
    approved and failed, as their askers reported.
    """

    since: datetime
    waiting: int
    ended: dict[Status, int]
    answered_by_people: int
    median_seconds: float | None = None
    ninetieth_seconds: float | None = None
    failed_after_approval: int = 0


class KeyRecord(Record):
    """A key of an agent, without its secret."""

    id: str
    agent: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @classmethod
    def of(cls, key: AgentKey) -> KeyRecord:
        """The record of a key."""
        return cls.model_validate(key, from_attributes=True)


class NewKeyRecord(KeyRecord):
    """A key that was just made: `key` is shown this once."""

    key: str = pydantic.Field(repr=False)


class KeyPage(Record):
    """Some keys in the order of their ids; `next` is the `after` of the next page."""

    items: tuple[KeyRecord, ...]
    next: str | None = None


class PersonRecord(Record):
    """Somebody who answers."""

    id: str
    name: str
    email: str | None = None
    role: Role
    groups: tuple[str, ...] = ()
    created_at: datetime
    disabled_at: datetime | None = None

    @classmethod
    def of(cls, person: Person) -> PersonRecord:
        """The record of a person."""
        values = {name: getattr(person, name) for name in cls.model_fields if name != "groups"}
        return cls(**values, groups=tuple(sorted(person.groups)))


class PersonPage(Record):
    """Some people in the order of their ids; `next` is the `after` of the next page."""

    items: tuple[PersonRecord, ...]
    next: str | None = None


class LinkRecord(Record):
    """A sign-in link that works once: send `url` to the person it is for, and to nobody else."""

    url: str = pydantic.Field(repr=False)
    expires_at: datetime


class QuestionLinkRecord(Record):
    """A link for one person to answer one question: send `url` to them, or show it to them in a frame."""

    url: str = pydantic.Field(repr=False)
    person: str
    expires_at: datetime


class GroupRecord(Record):
    """A group and its people."""

    name: str
    people: tuple[str, ...]


class GroupList(Record):
    """Every group of the workspace."""

    groups: tuple[GroupRecord, ...]


class SessionRecord(Record):
    """A session that was just opened: `token` is shown this once."""

    token: str = pydantic.Field(repr=False)
    expires_at: datetime


class OpenSessionRecord(Record):
    """A session that has not ended.

    `vouched_by` made the link that it began with, or after `address:` chose the address by which the person was found at the
    provider; `current` marks the caller's own.
    """

    id: str
    person: str
    how: str
    created_at: datetime
    expires_at: datetime
    vouched_by: str | None = None
    current: bool = False


class SessionList(Record):
    """The sessions of one person, the newest first."""

    sessions: tuple[OpenSessionRecord, ...]


class ToolResultRecord(Record):
    """The message for the model that a client's result makes, if there is one yet."""

    message: dict[str, Any] | None = None


class ClientMessages(Record):
    """What a client has to show for a conversation, oldest first."""

    messages: tuple[dict[str, Any], ...]
