"""Real histories as the model reads them: from the events and the record of each question to TLA+."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from chaos.model.tlc import Checked, check
from handraise import (
    Answered,
    Approval,
    Desk,
    Event,
    Question,
    QuestionNotFound,
    open_desk,
)

Groups = Mapping[str, Sequence[str]]

_PAGE = 500
_NAMING = frozenset({"asked", "brought_in", "handed_over"})
"""The events that name others who are asked from then on."""
_HOW = {
    "declined": "person",
    "returned": "person",
    "exhausted": "person",
    "expired": "clock",
    "withdrawn": "asker",
    "pending": "",
}


@dataclass(frozen=True)
class Story:
    """A question as it is stored, and everything that is said to have happened to it."""

    question: Question
    events: Sequence[Event] = field(repr=False)


async def stories_at(url: str, workspace: str) -> list[Story]:
    """The stories of a workspace at an address."""
    async with open_desk(url, workspace=workspace) as desk:
        return await stories_of(desk)


async def stories_of(desk: Desk) -> list[Story]:
    """The stories of everything in the feed of a desk's workspace, while nothing happens there."""
    found: dict[str, None] = {}
    after: str | None = None
    while page := await desk.feed(after=after, limit=_PAGE):
        found |= dict.fromkeys(event.question_id for event in page)
        after = page.next
    stories = []
    for question_id in found:
        with suppress(QuestionNotFound):  # not kept any more
            stories.append(Story(await desk.get(question_id), await desk.history(question_id)))
    return stories


def replay(stories: Sequence[Story], *, groups: Groups | None = None) -> Checked:
    """Check stories against the model. A deadlock is an event that the lifecycle does not allow at that point."""
    known = {story.question.id: story.question for story in stories}
    told = ",\n".join(_told(story, groups or {}, known) for story in stories)
    module = f"---- MODULE Stories ----\nEXTENDS Naturals, Sequences, TLC\nStories == <<\n{told}\n>>\n====\n"
    return check("Replay", "Replay", extra={"Stories": module}, deadlocks=True)


def place_of(checked: Checked) -> tuple[int, int] | None:
    """The story in which a replay stopped, and its event, both from 0; None if it did not stop."""
    if not checked.violated:
        return None
    said = {}
    for line in checked.output.splitlines():
        name, _, value = line.removeprefix("/\\ ").partition(" = ")
        if name in {"story", "place"}:
            said[name] = int(value) - 1
    return said["story"], said["place"]


def _told(story: Story, groups: Groups, known: Mapping[str, Question]) -> str:
    question, events = story.question, story.events
    asked_at = question.asked_at
    dues = [asked_at + step.after for step in question.steps]
    if question.expires_at is not None:
        dues[-1] = question.expires_at  # late actions have postponed it
    outcome = question.outcome
    valid_for = getattr(question.form, "valid_for", None)
    lapses = (
        {}
        if outcome is None or valid_for is None
        else {outcome.at: outcome.at + timedelta(seconds=valid_for)}
    )
    # TLC's numbers are small: instants are given by their order, which is all that matters.
    instants = {asked_at, *dues, *(event.at for event in events), *lapses.values()}
    order = {at: place for place, at in enumerate(sorted(instants))}
    names = _Names()
    asked = {
        "asker": names[question.asker],
        "quorum": question.quorum,
        "veto": question.veto,
        "max": question.max_attempts or 0,
        "to": {names[each] for each in question.recipients},
        "approval": isinstance(question.form, Approval),
        "replies": question.replies is not None,
        "lapses": {order[at]: order[until] for at, until in lapses.items()},
        "follows": question.follows is not None or any(event.kind == "opened" for event in events),
        "steps": [
            {"do": step.do, "to": {names[each] for each in step.to}, "at": order[due]}
            for step, due in zip(question.steps, dues, strict=True)
        ],
    }
    stored = {
        "status": question.status.value,
        "attempts": question.attempts,
        "taken": question.steps_taken,
        "how": _how(question, events),
        "used": question.consumed_at is not None,
        "taken_back": question.taken_back_at is not None,
        "reported": question.report is not None,
        "replaced": question.replaced_by is not None,
        "follows": question.follows is not None,
        "votes": len(question.votes),
        "thread": question.thread,
    }
    happened = [_event(event, question, order, names, groups=groups, known=known) for event in events]
    return _tla({"asked": asked, "events": happened, "stored": stored})


def _how(question: Question, events: Sequence[Event]) -> str:
    """How its end came about. Of what was declined or sent back, only the event says whether it was shared."""
    if isinstance(question.outcome, Answered):
        return question.outcome.source
    ends = (event.data for event in events if event.kind.value == question.status.value)
    is_shared = any((data or {}).get("source") == "shared" for data in ends)
    return "shared" if is_shared else _HOW[question.status.value]


def _event(
    event: Event,
    question: Question,
    order: Mapping[datetime, int],
    names: _Names,
    *,
    groups: Groups,
    known: Mapping[str, Question],
) -> dict[str, Any]:
    data = event.data if isinstance(event.data, dict) else {}
    ballot, negative = _ballot(event, data, question, names)
    by = event.by or ""
    return {
        "kind": event.kind.value,
        "by": names[by] if by else "",
        "names": {names[each] for each in (by, *(f"group:{group}" for group in groups.get(by, ()))) if each},
        "ballot": ballot,
        "negative": negative,
        "saw": data.get("replies_to", data.get("seen", 0)),
        "at": order[event.at],
        "how": data.get("source", "person"),
        "to": {names[each] for each in data.get("to", ())} if event.kind in _NAMING else set(),
        "replaces": "replaced_by" in data,
        "first": _first(event, data, ballot, names, known),
    }


def _first(
    event: Event, data: Mapping[str, Any], ballot: str, names: _Names, known: Mapping[str, Question]
) -> dict[str, Any]:
    """How the question ended that an event says it follows. If it is not known, the event is believed."""
    first = known.get(data.get("question", ""))
    outcome = None if first is None else first.outcome
    if data.get("source") != "shared" or outcome is None:
        return {"status": event.kind.value, "how": "person", "by": names[event.by or ""], "value": ballot}
    by, value = getattr(outcome, "by", None), getattr(outcome, "value", None)
    ballots = {"declined": "declined", "returned": "returned"}
    return {
        "status": outcome.status.value,
        "how": outcome.source if isinstance(outcome, Answered) else "person",
        "by": names[by or ""],
        "value": ballots.get(outcome.status.value) or names[json.dumps(value, sort_keys=True)],
    }


def _ballot(event: Event, data: Mapping[str, Any], question: Question, names: _Names) -> tuple[str, bool]:
    if event.kind == "returned" or data.get("returns"):
        return "returned", True
    if "value" not in data or event.kind in {"attempted", "exhausted"}:
        return "declined", True
    value = data["value"]
    if not isinstance(question.form, Approval) or not isinstance(value, dict):
        return names[json.dumps(value, sort_keys=True)], False
    same = value["digest"] == question.form.action.digest or question.quorum == 1
    decision: str = value["decision"] if same else names[f"{value['decision']} {value['digest']}"]
    return decision, value["decision"] == "deny"


class _Names(dict[str, str]):
    """A short plain word for each text, the same each time."""

    def __missing__(self, text: str) -> str:
        self[text] = f"n{len(self) + 1}"
        return self[text]


def _tla(value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case str():
            return json.dumps(value)
        case dict() if not all(isinstance(name, str) for name in value):
            return " @@ ".join(f"({name} :> {_tla(each)})" for name, each in value.items())
        case dict() if not value:
            return "<<>>"
        case dict():
            return "[" + ", ".join(f"{name} |-> {_tla(each)}" for name, each in value.items()) + "]"
        case set():
            return "{" + ", ".join(sorted(map(_tla, value))) + "}"
        case _:
            return "<<" + ", ".join(map(_tla, value)) + ">>"
