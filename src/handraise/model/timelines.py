"""Timelines: what the store itself does while nobody answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

import pydantic

from handraise.model.json_values import Json

Deed = Literal["remind", "escalate", "expire", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """After a while, others may answer too."""

    __pydantic_config__: ClassVar = pydantic.ConfigDict(revalidate_instances="always")
    after: timedelta
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Remind, escalate, then expire or take the named default. Without `expire` it waits for ever.

    All spans count from the moment of asking. `default` is the answer recorded, marked as a default, when
    the time of `expire` comes.
    """

    __pydantic_config__: ClassVar = pydantic.ConfigDict(revalidate_instances="always")
    remind: tuple[timedelta, ...] = ()
    escalate: tuple[Escalation, ...] = ()
    expire: timedelta | None = None
    default: Json = None


@dataclass(frozen=True, slots=True)
class Step:
    """One deed of a timeline, as the store keeps it."""

    after: timedelta
    do: Deed
    to: tuple[str, ...] = ()
    record: dict[str, Json] | None = None

    @property
    def ends(self) -> bool:
        """Whether this deed settles the question."""
        return self.do in ("expire", "default")


def steps_of(timeline: Timeline) -> tuple[Step, ...]:
    """The timeline's deeds in the order of their time, the one that settles last."""
    steps = [Step(span, "remind") for span in timeline.remind]
    steps += [Step(escalation.after, "escalate", escalation.to) for escalation in timeline.escalate]
    steps.sort(key=lambda step: step.after)
    if timeline.expire is not None and timeline.default is None:
        steps.append(Step(timeline.expire, "expire", record={}))
    elif timeline.expire is not None:
        steps.append(
            Step(timeline.expire, "default", record={"value": timeline.default, "source": "default"})
        )
    return tuple(steps)


def timeline_of(steps: Sequence[Step]) -> Timeline | None:
    """The timeline behind stored steps."""
    if not steps:
        return None
    end = steps[-1] if steps[-1].ends else None
    return Timeline(
        remind=tuple(step.after for step in steps if step.do == "remind"),
        escalate=tuple(Escalation(after=step.after, to=step.to) for step in steps if step.do == "escalate"),
        expire=end.after if end else None,
        default=(end.record or {}).get("value") if end else None,
    )


def steps_to_json(steps: Sequence[Step]) -> list[dict[str, Json]]:
    """What a store keeps of the steps; `after` is in seconds."""
    return [
        {"after": step.after.total_seconds(), "do": step.do, "to": list(step.to), "record": step.record}
        for step in steps
    ]


def steps_from_json(stored: Sequence[dict[str, Json]]) -> tuple[Step, ...]:
    """The steps from what a store keeps."""
    return tuple(
        Step(timedelta(seconds=step["after"]), step["do"], tuple(step["to"]), step["record"])
        for step in stored
    )
