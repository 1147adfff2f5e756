"""Timelines: what the store itself does while nobody answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from handraise.model.durations import Span, WorkingSpan, timeline_span_of
from handraise.model.json_values import Json, JsonValue
from handraise.model.problems import InvalidQuestion, Problem

Deed = Literal["remind", "escalate", "expire", "default"]


SHORTEST_GAP = timedelta(minutes=10)
"""The least time between a late step and the next one, unless the planned gap is shorter or the timeline ends."""


@dataclass(frozen=True, slots=True, init=False)
class Escalation:
    """After a while, others may answer too. Write `Escalation(after="2h", to=["group:leads"])`."""

    after: timedelta
    to: tuple[str, ...]

    def __init__(self, *, after: Span, to: Sequence[str]) -> None:
        """Raise `InvalidQuestion` at once for values that make no sense."""
        _set(self, after=_span("timeline.escalate.after", after), to=_names("timeline.escalate.to", to))


@dataclass(frozen=True, slots=True, init=False)
class Timeline:
    """Remind, escalate, then expire or take the named default. Without `expire` it waits forever.

    All times count from when the question is asked: `Timeline(remind="10m", expire="2h")`. `remind` and
    `escalate` take one value or several. A step that is done late, after an outage, delays the following
    ones: at least ten minutes are left for each, or the planned gap if that is shorter. Nothing delays `expire`: what is
    left then is not done. `default` is the answer that is recorded, marked as a default, when it expires.

    Every time may count working hours: `remind="2 working hours"`, `expire="3 working days"`. What that comes to is
    decided when the question is posted, by the working hours of the first group that is asked, or of the workspace.
    """

    remind: tuple[timedelta, ...] = ()
    escalate: tuple[Escalation, ...] = ()
    expire: timedelta | None = None
    default: Json = None

    def __init__(
        self,
        *,
        remind: Span | Sequence[Span] = (),
        escalate: Escalation | Sequence[Escalation] = (),
        expire: Span | None = None,
        default: JsonValue = None,
    ) -> None:
        """Raise `InvalidQuestion` at once for values that make no sense."""
        reminders = remind if isinstance(remind, (list, tuple)) else (remind,)
        escalations = (escalate,) if isinstance(escalate, Escalation) else escalate
        if not isinstance(escalations, (list, tuple)) or not all(
            isinstance(each, Escalation) for each in escalations
        ):
            raise _mistaken(
                "timeline.escalate",
                "expected an Escalation, or a list: write escalate=Escalation(after='2h', to=['group:leads'])",
            )
        _set(
            self,
            remind=tuple(_span(f"timeline.remind[{place}]", each) for place, each in enumerate(reminders)),
            escalate=tuple(escalations),
            expire=None if expire is None else _span("timeline.expire", expire),
            default=default,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a timeline, as the store keeps it."""

    after: timedelta
    do: Deed
    to: tuple[str, ...] = ()
    record: dict[str, Json] | None = None
    working: str | None = None
    """The working time that the asker wrote, such as "2 working hours". `after` is what it came to."""

    @property
    def span(self) -> timedelta:
        """When it is done, as a part of a timeline."""
        return self.after if self.working is None else WorkingSpan(self.working, self.after)

    @property
    def ends(self) -> bool:
        """Whether this step settles the question."""
        return self.do in ("expire", "default")


def _set(frozen: Escalation | Timeline, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def _span(path: str, span: Span) -> timedelta:
    try:
        return timeline_span_of(span)
    except (TypeError, ValueError) as error:
        raise _mistaken(path, str(error)) from None
    except OverflowError:
        raise _mistaken(path, "is a span that no clock knows") from None


def _names(path: str, names: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)):
        raise _mistaken(path, f"expected a list of names: write to=[{_written(names)}]")
    for name in names:
        if not isinstance(name, str):
            raise _mistaken(path, f"expected the names of people and groups, got {type(name).__name__}")
    return tuple(names)


def _written(value: object) -> str:
    return repr(value) if isinstance(value, (str, int, float)) else "…"


def _mistaken(path: str, message: str) -> InvalidQuestion:
    return InvalidQuestion([Problem(path, message)])


def steps_of(timeline: Timeline) -> tuple[Step, ...]:
    """The timeline's steps in the order of their times; the one that settles comes last."""
    steps = [_step(span, "remind") for span in timeline.remind]
    steps += [_step(escalation.after, "escalate", escalation.to) for escalation in timeline.escalate]
    steps.sort(key=lambda step: step.after)
    if timeline.expire is not None and timeline.default is None:
        steps.append(_step(timeline.expire, "expire", record={}))
    elif timeline.expire is not None:
        steps.append(
            _step(timeline.expire, "default", record={"value": timeline.default, "source": "default"})
        )
    return tuple(steps)


def _step(span: timedelta, do: Deed, to: tuple[str, ...] = (), record: dict[str, Json] | None = None) -> Step:
    if not isinstance(span, WorkingSpan):
        return Step(span, do, to, record)
    return Step(timedelta(seconds=span.total_seconds()), do, to, record, span.words)


def gap_before(steps: Sequence[Step], place: int) -> timedelta:
    """The least time between the step before this one, if that was late, and this one; the end never waits for it."""
    return min(steps[place].after - steps[place - 1].after, SHORTEST_GAP)


def timeline_of(steps: Sequence[Step]) -> Timeline | None:
    """The timeline that stored steps were made from."""
    if not steps:
        return None
    end = steps[-1] if steps[-1].ends else None
    return Timeline(
        remind=tuple(step.span for step in steps if step.do == "remind"),
        escalate=tuple(Escalation(after=step.span, to=step.to) for step in steps if step.do == "escalate"),
        expire=end.span if end else None,
        default=(end.record or {}).get("value") if end else None,
    )


def steps_to_json(steps: Sequence[Step]) -> list[dict[str, Json]]:
    """What a store keeps of the steps; `after` is in seconds.

    The record of a default is JSON in a text, because PostgreSQL's jsonb would change how its numbers are written.
    """
    return [
        {
            "after": step.after.total_seconds(),
            "do": step.do,
            "to": list(step.to),
            "record": None if step.record is None else json.dumps(step.record),
            **({} if step.working is None else {"working": step.working}),
        }
        for step in steps
    ]


def steps_from_json(stored: Sequence[dict[str, Json]]) -> tuple[Step, ...]:
    """The steps from what a store keeps."""
    return tuple(
        Step(
            timedelta(seconds=step["after"]),
            step["do"],
            tuple(step["to"]),
            json.loads(step["record"]) if isinstance(step["record"], str) else step["record"],
            step.get("working"),
        )
        for step in stored
    )
