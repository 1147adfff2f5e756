"""Whom to notify about a question, where, and when: the rules of a workspace, as pure functions.

People's attention is limited. Outside somebody's hours, or beyond their limit of messages an hour, a message
waits and is sent together with others as one. The question itself never waits: it is in the inbox at once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pydantic

from handraise.model.away import Away, deputy_of
from handraise.model.deliveries import Address, Delivery, Reason
from handraise.model.json_values import Json, canonical_json
from handraise.model.people import ANYONE, GROUP, Responder, may_respond
from handraise.model.questions import Question

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
ClockTime = Annotated[str, pydantic.StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Name = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=200)]

_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = timedelta(hours=1)
_HIGH = "high"


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class Rule(_Part):
    """A rule for some messages; None matches everything. The first rule that matches counts."""

    asker: Name | None = None
    risk: Literal["low", "medium", "high"] | None = None
    recipient: Name | None = None
    channels: tuple[Name, ...] | None = None
    """The only channels to use; if empty, the question is only in the inbox."""
    urgent: bool = False
    """Ignore people's hours and limits."""

    def fits(self, question: Question, recipient: str) -> bool:
        """Whether it matches this question and recipient."""
        return (
            self.asker in (None, question.asker)
            and self.risk in (None, question.risk)
            and self.recipient in (None, recipient)
        )


class Hours(_Part):
    """When somebody wants to be notified: these days from `opens` to `closes`, past midnight if it closes earlier."""

    timezone: str = "UTC"
    days: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri")
    opens: ClockTime = "09:00"
    closes: ClockTime = "18:00"

    @pydantic.field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("is not a time zone, such as Europe/Vienna") from None
        return name

    @pydantic.field_validator("days")
    @classmethod
    def _some(cls, days: tuple[Day, ...]) -> tuple[Day, ...]:
        if not days:
            raise ValueError("needs at least one day")
        return days

    def next_open(self, now: datetime) -> datetime:
        """The first time from `now` on that is within these hours."""
        zone = ZoneInfo(self.timezone)
        today = now.astimezone(zone).date()
        spans = (self._span(today + timedelta(days=ahead), zone) for ahead in range(-1, 9))
        return next(max(begin, now) for begin, end in filter(None, spans) if end > now)

    def _span(self, day: date, zone: ZoneInfo) -> tuple[datetime, datetime] | None:
        if _DAYS[day.weekday()] not in self.days:
            return None
        begin = datetime.combine(day, time.fromisoformat(self.opens), zone)
        end = datetime.combine(day, time.fromisoformat(self.closes), zone)
        if self.closes <= self.opens:
            end += timedelta(days=1)
        return begin.astimezone(UTC), end.astimezone(UTC)


class Attention(_Part):
    """How much of a recipient's attention agents may have."""

    hours: Hours | None = None
    per_hour: Annotated[int, pydantic.Field(ge=1)] | None = None


class Routing(_Part):
    """How a workspace reaches its people.

    `people` holds the limits of single recipients, `anybody` those of everybody else; `agents` is how many
    messages an hour one agent may cause. `on_call` is the order in which the people of a group are notified:
    the first when it is asked, the next with every reminder or escalation.
    """

    rules: Annotated[tuple[Rule, ...], pydantic.Field(max_length=200)] = ()
    people: dict[Name, Attention] = {}
    anybody: Attention = Attention()
    agents: dict[Name, Annotated[int, pydantic.Field(ge=1)]] = {}
    on_call: dict[Name, tuple[Name, ...]] = {}

    @property
    def counts(self) -> bool:
        """Whether recent messages must be counted."""
        attention = (self.anybody, *self.people.values())
        return bool(self.agents) or any(each.per_hour is not None for each in attention)


class Recent(NamedTuple):
    """How many messages a recipient got, and an agent caused, within the last hour."""

    recipients: Counter[str]
    askers: Counter[str]

    @classmethod
    def nothing(cls) -> Recent:
        """Nobody was notified."""
        return cls(Counter(), Counter())

    def note(self, recipient: str, asker: str, number: int = 1) -> None:
        """Count a message to somebody."""
        self.recipients[recipient] += number
        self.askers[asker] += number


class Plan(NamedTuple):
    """Whom to notify. `left_out` says that a rule excludes somebody who could be notified."""

    deliveries: tuple[Delivery, ...]
    left_out: bool


class Notification(NamedTuple):
    """A notification to send: about which event of a question, and to whom."""

    question: Question
    reason: Reason
    number: int
    """Distinguishes the events of a question."""
    turn: int
    """How often others have been notified of it before."""
    to: tuple[str, ...]


def names_for(
    notification: Notification,
    policy: Routing,
    members: Mapping[str, Sequence[str]],
    on_duty: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Everybody whose addresses are used, and for which recipient.

    `on_duty` has those of a group who are on duty, if it follows a rota. If none of them is in the group, everybody is.
    """
    found: dict[str, str] = {}
    for name in notification.to or (ANYONE,):
        found.setdefault(name, name)
        group = name.removeprefix(GROUP) if name.startswith(GROUP) else None
        if group is None:
            continue
        order = policy.on_call.get(group, ())
        people: Iterable[str] = members.get(group, ())
        duty = [person for person in people if person in (on_duty or {}).get(group, ())]
        if duty:
            people = duty
        elif order:
            people = (order[notification.turn % len(order)],)
        for person in people:
            found.setdefault(person, name)
    return found


def deputies_among(
    notification: Notification,
    names: Mapping[str, str],
    away: Mapping[str, Away],
    members: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """For each of these people who is away, the deputy who can be notified instead.

    A deputy who may not answer this question must not read it, so the person who is away is notified as always.
    """
    found: dict[str, str] = {}
    for name in names:
        deputy = deputy_of(name, away)
        if deputy is None:
            continue
        groups = frozenset(group for group, people in members.items() if deputy in people)
        if may_respond(notification.question, Responder(deputy, groups)):
            found[name] = deputy
    return found


def with_deputies(
    names: Mapping[str, str], deputies: Mapping[str, str], reachable: Collection[str]
) -> dict[str, str]:
    """Everybody whose addresses are used if deputies are notified instead of those who are away.

    A deputy who cannot be reached replaces nobody: it is better to notify somebody who is away than nobody.
    """
    instead = {name: deputy for name, deputy in deputies.items() if deputy in reachable}
    found = {name: sake for name, sake in names.items() if name not in instead}
    for name, deputy in instead.items():
        found.setdefault(deputy, names[name])
    return found


def plan(
    notification: Notification,
    policy: Routing,
    *,
    names: Mapping[str, str],
    addresses: Sequence[Address],
    rate_limit_key_of: Callable[[Address], str | None],
    recent: Recent,
    now: datetime,
    opens: Mapping[str, datetime] | None = None,
) -> Plan:
    """The deliveries of a notification, each counted in `recent`.

    An address without a rate limit key cannot be used. `opens` says when the working hours of a group begin, or now
    if they have begun: a reminder for it waits until then, unless it is urgent.
    """
    question = notification.question
    # The asker cannot answer, and so is not notified either.
    usable = [
        each
        for each in addresses
        if each.recipient in names
        and each.recipient != question.asker
        and rate_limit_key_of(each) is not None
    ]
    rules = [
        next((rule for rule in policy.rules if rule.fits(question, each.recipient)), Rule())
        for each in usable
    ]
    allowed = [
        (each, rule)
        for each, rule in zip(usable, rules, strict=True)
        if rule.channels is None or each.channel in rule.channels
    ]
    shared = {(each.recipient, each.channel) for each, _ in allowed if each.recipient.startswith(GROUP)}
    told: set[tuple[str, str]] = set()
    planned: list[Delivery] = []
    for address, rule in allowed:
        sake, place = names[address.recipient], (address.channel, canonical_json(address.to))
        # If a group has its own chat there, its people are not notified one by one.
        if place in told or (address.recipient != sake and (sake, address.channel) in shared):
            continue
        told.add(place)
        # The agent itself declares the risk and when to escalate, so neither lets it exceed its limit.
        claimed = notification.reason == "escalated" or question.risk == _HIGH
        urgent = rule.urgent or (claimed and not _has_had_enough(question.asker, policy, recent))
        earliest = max(now, (opens or {}).get(sake, now)) if notification.reason == "reminded" else now
        due_at, bundle = (
            (now, None) if urgent else _turn(address, question, policy, recent, now=now, earliest=earliest)
        )
        planned.append(
            Delivery(
                workspace=question.workspace,
                id=delivery_id(notification, address),
                question_id=question.id,
                recipient=address.recipient,
                channel=address.channel,
                to=address.to,
                reason=notification.reason,
                rate_limit_key=rate_limit_key_of(address) or address.channel,
                created_at=now,
                due_at=due_at,
                bundle=bundle,
            )
        )
    for each in planned:
        if each.bundle is None:
            recent.note(each.recipient, question.asker)
    return Plan(tuple(planned), left_out=len(allowed) < len(usable))


def delivery_id(notification: Notification, address: Address) -> str:
    """The id of a delivery: the same delivery always has the same id."""
    what: list[Json] = [
        notification.question.workspace,
        notification.question.id,
        notification.reason,
        notification.number,
    ]
    where: list[Json] = [address.recipient, address.channel, address.to]
    return hashlib.sha256(canonical_json(what + where).encode()).hexdigest()[:32]


def _turn(
    address: Address,
    question: Question,
    policy: Routing,
    recent: Recent,
    *,
    now: datetime,
    earliest: datetime,
) -> tuple[datetime, str | None]:
    """When a message may be sent, and in which bundle if it has to wait."""
    attention = policy.people.get(address.recipient, policy.anybody)
    due_at = attention.hours.next_open(earliest) if attention.hours else earliest
    too_many = (
        attention.per_hour is not None and recent.recipients[address.recipient] >= attention.per_hour
    ) or _has_had_enough(question.asker, policy, recent)
    if too_many and due_at == now:
        due_at = now + _WINDOW - (now - datetime.min.replace(tzinfo=UTC)) % _WINDOW
        if attention.hours:
            due_at = attention.hours.next_open(due_at)
    if due_at == now:
        return now, None
    where = hashlib.sha256(canonical_json(address.to).encode()).hexdigest()[:16]
    return due_at, f"{address.channel} {address.recipient} {where} {due_at.isoformat()}"


def _has_had_enough(asker: str, policy: Routing, recent: Recent) -> bool:
    """Whether an agent has caused as many messages as it may."""
    return asker in policy.agents and recent.askers[asker] >= policy.agents[asker]
