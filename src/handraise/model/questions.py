"""The durable record: a question as posted, and its current state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeVar

from handraise.model.attachments import Attachment
from handraise.model.callbacks import Callback
from handraise.model.decisions import Decision, decision_of
from handraise.model.forms import AnyForm, Approval, Risk, form_to_json
from handraise.model.json_values import Json, canonical_json, digest
from handraise.model.outcomes import Answered, Outcome, Status, outcome_of
from handraise.model.reports import Report
from handraise.model.rulings import Ruling
from handraise.model.timelines import Step, Timeline, gap_before, timeline_of

T = TypeVar("T", bound="Draft")

_SHORT = 80


class Ref(NamedTuple):
    """The place of a question: ids are unique within a workspace."""

    workspace: str
    id: str


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's accepted answer if several people must agree. Equal ballots agree.

    `Desk.get` gives the `value` and the `reason` of each vote once the question has ended. The value of somebody who
    declined or sent the question back is None.
    """

    by: str
    ballot: str = field(repr=False)
    value: Json = field(default=None, repr=False, compare=False)
    reason: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Need:
    """How many of these people and groups must be among those who agree.

    The need of a later `stage` counts, and its people are asked, when all needs of the stages before it are met.
    """

    people: tuple[str, ...]
    count: int = 1
    stage: int = 0


def open_stage(needs: Sequence[Need], missing: Sequence[int]) -> int | None:
    """The first stage in which somebody is missing; None if there are no stages, or nobody is missing.

    `missing` says how many people each need still lacks; if it is empty, all of them do.
    """
    if not any(need.stage for need in needs):
        return None
    lacking = missing or [need.count for need in needs]
    return min((need.stage for need, count in zip(needs, lacking, strict=True) if count), default=None)


def needs_from_json(stored: list[dict[str, Any]]) -> tuple[Need, ...]:
    """The needs that are stored with a question."""
    return tuple(Need(tuple(each["people"]), each["count"], each["stage"]) for each in stored)


Replies = Literal["program", "model"]
"""Who replies if a person asks back: the program that asked, or its model, which gets the question as a tool's result."""


class Aside(NamedTuple):
    """Who does not want a question in their inbox, and until when; None is for good."""

    person: str
    until: datetime | None


RequiredEvidence = Literal["session", "passkey"]
"""The evidence of a person that a policy can require: that they signed in, or a passkey that signed the decision."""


class Difference(NamedTuple):
    """A part in which two questions differ, with both values as short texts."""

    field: str
    stored: str
    posted: str


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A question before the store has it: everything that never changes once it is posted."""

    id: str
    workspace: str
    asker: str
    prompt: str = field(repr=False)
    form: AnyForm = field(repr=False)
    context: Json = field(default=None, repr=False)
    state: Json = field(default=None, repr=False)
    key: str | None = None
    conversation: str | None = None
    tool_call: str | None = None
    recipients: tuple[str, ...] = ()
    quorum: int = 1
    veto: bool = False
    max_attempts: int | None = None
    steps: tuple[Step, ...] = field(default=(), repr=False)
    trace: str | None = field(default=None, repr=False, compare=False)
    """The tracing span in which it was asked, as a W3C `traceparent`."""
    undo_for: float = 0.0
    """For how many seconds a person may take an answer back before it is sent."""
    heartbeat: float | None = None
    """After how many seconds without a sign of its asker nobody waits for the answer any more; None if that is not known."""
    shared: bool = False
    """Whether other askers of the workspace that use the same shared key get this question too."""
    replies: Replies | None = None
    """Who replies if a person asks back. If None, people can only note something for each other."""
    replaces: str | None = None
    """The id of the asker's question that this one replaces."""
    topic: str | None = None
    """What is asked, across askers. Of equal pending questions with one topic, people are asked one."""
    added: tuple[str, ...] = ()
    """Who is asked besides the recipients: deputies of people who are away, and everybody who was brought in later."""
    needs: tuple[Need, ...] = ()
    """Who must be among those who agree, if the policy says more than recipients and a quorum do."""
    evidence: RequiredEvidence | None = None
    """The evidence of a person that the policy requires for an answer."""
    ruling: Ruling | None = field(default=None, repr=False)
    """What the workspace's policy decided when it was posted, or None without a policy."""
    attachments: tuple[Attachment, ...] = ()
    """The files that belong to the question; see `Desk.attach`."""
    callback: Callback | None = field(default=None, repr=False, compare=False)
    """Where its asker is told that it has ended. No store gives it back with the question: it holds a secret."""

    @property
    def ref(self) -> Ref:
        """The place of the question."""
        return Ref(self.workspace, self.id)

    @property
    def takes_votes(self) -> bool:
        """Whether an answer is a vote, because several people must agree or certain people must be among them."""
        return self.quorum > 1 or bool(self.needs)

    @property
    def policy_decides_who(self) -> bool:
        """Whether the policy says who answers: it replaced the recipients, or certain people must be among those who agree."""
        return bool(self.needs) or (self.ruling is not None and self.ruling.names_people)

    @property
    def key_owner(self) -> str:
        """The owner of the key: the asker, or nobody if askers share it."""
        return "" if self.shared else self.asker

    @property
    def topic_key(self) -> str | None:
        """The same for questions that can share one answer: those of one topic that ask the same people the same.

        The prompt and the files count too: an agent must not get an answer for others to something else than they asked.
        The context does not: it says why one agent asks. None without a topic, and if the policy needs certain people.
        """
        if self.topic is None or self.needs:
            return None
        asked = [
            self.topic,
            self.prompt,
            form_to_json(self.form),
            list(self.recipients),
            self.quorum,
            self.veto,
            self.evidence,
            *(each.record() for each in self.attachments),
        ]
        return digest(["handraise topic", *asked])

    @property
    def timeline(self) -> Timeline | None:
        """What happens while nobody answers, or None to wait forever."""
        return timeline_of(self.steps)

    @property
    def risk(self) -> Risk | None:
        """How much harm the action to be approved could do; None for other questions."""
        return self.form.risk if isinstance(self.form, Approval) else None

    @property
    def definition(self) -> str:
        """What makes two questions with the same key the same question.

        Context, state, the tool call, the trace, the attempts allowed, the time to undo, the heartbeat and the callback
        are left out: a program that runs again may give other values for them. If a policy changed the question, what counts
        is what the asker had asked for.
        """
        return canonical_json(definition_parts(self))

    def differences(self, other: Draft) -> tuple[Difference, ...]:
        """The parts in which this question differs from another one, with both values."""
        mine, theirs = self._parts(), other._parts()
        names = dict.fromkeys((*mine, *theirs))
        return tuple(
            Difference(name, _short(mine.get(name)), _short(theirs.get(name)))
            for name in names
            if canonical_json(mine.get(name)) != canonical_json(theirs.get(name))
        )

    def _parts(self) -> dict[str, Json]:
        """The parts that define the question, with those of its form and timeline."""
        defined = definition_parts(self)
        form: dict[str, Json] = json.loads(defined.pop("form"))
        steps: list[list[Json]] = defined.pop("steps")
        return (
            defined
            | {f"form.{name}": value for name, value in form.items()}
            | {f"timeline[{place}]": step for place, step in enumerate(steps)}
        )


@dataclass(frozen=True, kw_only=True)
class Question(Draft):
    """The durable record of a question and its current state."""

    asked_at: datetime
    status: Status = Status.PENDING
    heard_at: datetime | None = None
    """When its asker was last heard from, if it has a `heartbeat`; see `Desk.heartbeat`."""
    attempts: int = 0
    votes: tuple[Vote, ...] = ()
    missing: tuple[int, ...] = ()
    """For each of its needs, how many people are missing among those who agree most. Empty before the first vote."""
    steps_taken: int = 0
    stepped_at: datetime | None = None
    """When the last step of its timeline that did not end it was done."""
    thread: int = 0
    """How many messages people and the asker have written to each other; see `Desk.thread`."""
    asked_back: int = 0
    """The number of the last message that waits for the asker's reply; 0 if none does."""
    replied: int = 0
    """The number of the asker's last reply. An approving vote from before it does not count any more."""
    taken_by: str | None = None
    """Who said last that they are working on the answer; see `Desk.take`."""
    taken_until: datetime | None = None
    """Until when that counts. Everybody else may answer meanwhile."""
    aside: tuple[Aside, ...] = ()
    """Who does not want it in their inbox; see `Desk.set_aside`."""
    follows: str | None = None
    """The id of the equal question that people are asked instead: this one gets its answer."""
    replaced_by: str | None = None
    """The id of the question that its asker asked instead; see `replaces`."""
    outcome: Outcome | None = None
    consumed_at: datetime | None = None
    taken_back_at: datetime | None = None
    """When the approval was taken back, which is only possible before it is consumed."""
    report: Report | None = field(default=None, repr=False)
    """What came of the answer, as its asker reported it; see `Desk.report`."""
    unreached_at: datetime | None = None
    """When it became known that nobody could be notified of it."""
    sent_at: datetime | None = None
    """When its asker showed it in a chat of its own; see `Desk.mark_sent`."""
    url: str | None = field(default=None, repr=False, compare=False)
    """The page on which people answer it, if the server's address is known. They sign in there."""
    overdue: bool = field(default=False, repr=False, compare=False)
    """A step of its timeline is due, but the store has not done it yet; a desk never returns such a question."""

    @property
    def decision(self) -> Decision | None:
        """The decision about an action, or None if nobody has decided.

        It is truthy only if the action was approved.
        """
        if isinstance(self.form, Approval) and isinstance(self.outcome, Answered):
            return decision_of(self.form, self.outcome.value)
        return None

    @property
    def is_askers_turn(self) -> bool:
        """Whether people wait for the asker's reply. Reminders and escalations pause meanwhile; the expiry does not."""
        return self.status is Status.PENDING and self.asked_back > 0

    @property
    def is_paused(self) -> bool:
        """Whether only the last step of its timeline is taken: it is the asker's turn, or it follows another question."""
        return self.is_askers_turn or (self.status is Status.PENDING and self.follows is not None)

    @property
    def audience(self) -> tuple[str, ...]:
        """Who may answer now: all who are eligible, or only the people of the open stage. Empty means anyone."""
        return self.asked_in(self.stage)

    @property
    def stage(self) -> int | None:
        """The stage whose people may answer now; None if everybody who is eligible may."""
        return open_stage(self.needs, self.missing) if self.needs else None

    def asked_in(self, stage: int | None) -> tuple[str, ...]:
        """Who may answer in a stage: the people whom its needs name."""
        if stage is None:
            return self.eligible
        return tuple(
            dict.fromkeys(name for need in self.needs if need.stage == stage for name in need.people)
        )

    @property
    def eligible(self) -> tuple[str, ...]:
        """Who may answer in any stage: the recipients, those escalated to and those brought in. Empty means anyone."""
        if not self.recipients or not (self.steps_taken or self.added):
            return self.recipients
        escalated = (name for step in self.steps[: self.steps_taken] for name in step.to)
        return tuple(dict.fromkeys((*self.recipients, *escalated, *self.added)))

    def taker(self, now: datetime) -> str | None:
        """Who is working on the answer now, as far as they said."""
        return self.taken_by if self.taken_until is not None and self.taken_until > now else None

    def is_aside(self, person: str, now: datetime) -> bool:
        """Whether a person does not want it in their inbox now."""
        return any(each.person == person and (each.until is None or each.until > now) for each in self.aside)

    @property
    def unheard_from(self) -> datetime | None:
        """From when on nobody waits for the answer, unless its asker is heard from before; None if that is not known."""
        if self.status is not Status.PENDING or self.heartbeat is None or self.heard_at is None:
            return None
        return self.heard_at + timedelta(seconds=self.heartbeat)

    def is_orphaned(self, now: datetime) -> bool:
        """Whether nobody waits for the answer any more, as far as is known. People can still answer."""
        since = self.unheard_from
        return since is not None and since < now

    @property
    def closes_at(self) -> datetime | None:
        """When the policy withdraws it, unless its asker is heard from before; None if the policy does not."""
        since, ruling = self.unheard_from, self.ruling
        if since is None or ruling is None or ruling.close_orphans is None:
            return None
        return since + timedelta(seconds=ruling.close_orphans)

    @property
    def expires_at(self) -> datetime | None:
        """When it expires or takes its default, or None. Nothing delays this."""
        if not self.steps or not self.steps[-1].ends:
            return None
        return self.asked_at + self.steps[-1].after

    @property
    def due_at(self) -> datetime | None:
        """When the timeline's next step is due, or None."""
        if self.status is not Status.PENDING or self.steps_taken >= len(self.steps):
            return None
        end = self.expires_at
        if self.is_paused:
            return end
        due = self.asked_at + self.steps[self.steps_taken].after
        if self.stepped_at is not None:
            due = max(due, self.stepped_at + gap_before(self.steps, self.steps_taken))
        return due if end is None else min(due, end)

    @property
    def next_step(self) -> Step:
        """The timeline's next step. While the timeline is paused, only the last one is taken."""
        return self.steps[-1 if self.is_paused else self.steps_taken]


_DEFINED: Mapping[str, Callable[[Draft], Json]] = {
    "asker": lambda draft: draft.key_owner,
    "prompt": lambda draft: draft.prompt,
    "form": lambda draft: form_to_json(draft.form),
    "conversation": lambda draft: draft.conversation,
    "recipients": lambda draft: list(draft.recipients),
    "quorum": lambda draft: draft.quorum,
    "veto": lambda draft: draft.veto,
    "steps": lambda draft: _defined_steps(draft.steps),
    "attachments": lambda draft: [each.record() for each in draft.attachments],
}
_DEFINED_IF_SET = ("replaces", "topic")


def _defined_steps(steps: Sequence[Step]) -> list[Json]:
    """The steps as the asker wrote them. What working time comes to, and so their order, may differ the next time."""
    defined: list[Json] = [
        [step.working or step.after.total_seconds(), step.do, *step.to, step.record] for step in steps
    ]
    return sorted(defined, key=canonical_json) if any(step.working for step in steps) else defined


def definition_part(draft: Draft, name: str) -> Json:
    """One part of the definition of a question, as it is in the draft."""
    return _DEFINED[name](draft)


def definition_parts(draft: Draft) -> dict[str, Json]:
    """The parts of a question's definition, as its asker asked it."""
    parts = {name: read(draft) for name, read in _DEFINED.items()}
    parts |= {name: value for name in _DEFINED_IF_SET if (value := getattr(draft, name)) is not None}
    return parts if draft.ruling is None else parts | draft.ruling.asked


_UNLESS_GIVEN = {each.name: each.default for each in fields(Draft) if each.default is not MISSING}
_UNLESS_SAID = {each.name: each.default for each in fields(Question) if each.default is not MISSING}


def drafted(**values: Any) -> Draft:
    """A draft with a value for each of its fields that has no default."""
    return _made(Draft, {**_UNLESS_GIVEN, **values})


def redrafted(draft: T, **changes: Any) -> T:
    """The same draft or question with other values for some of its fields, before it is stored."""
    return _made(type(draft), {**vars(draft), **changes})


def posted(draft: Draft, asked_at: datetime, *, follows: str | None = None) -> Question:
    """The question that a draft has just become. A policy may have settled it at once, or it `follows` another one."""
    values = {
        **_UNLESS_SAID,
        **vars(draft),
        "asked_at": asked_at,
        "follows": follows,
        "callback": None,
    }
    if draft.heartbeat is not None:
        values["heard_at"] = asked_at
    if draft.ruling is not None and (ending := draft.ruling.ending) is not None:
        outcome = outcome_of(ending.status, asked_at, ending.record)
        values |= {"status": outcome.status, "outcome": outcome}
        if not draft.ruling.is_stored:
            values["ruling"] = None
    return _made(Question, values)


def restored(**values: Any) -> Question:
    """A question with a value for each of its fields."""
    return _made(Question, values)


def changed(question: Question, **changes: Any) -> Question:
    """The same question with other values for some of its fields."""
    return _made(Question, {**vars(question), **changes})


def _made(kind: type[T], values: dict[str, Any]) -> T:
    """A draft or a question with all of these values.

    Calling its class, which sets each frozen field, takes five times as long, and every question and every
    answer is made here.
    """
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", values)
    return made


def _short(value: Json) -> str:
    if value is None:
        return "nothing"
    text = canonical_json(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
