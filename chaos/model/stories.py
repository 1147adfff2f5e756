"""Real histories as the model reads them: from the events and the record of each question to TLA+."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaos.model.tlc import Checked, check
from handraise import Answered, Approval, Desk, Event, Question, QuestionNotFound, open_desk

Groups = Mapping[str, Sequence[str]]

_PAGE = 500
_HOW = {"declined": "person", "exhausted": "person", "expired": "clock", "withdrawn": "asker", "pending": ""}


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
    told = ",\n".join(_told(story, groups or {}) for story in stories)
    module = f"---- MODULE Stories ----\nEXTENDS Naturals, Sequences\nStories == <<\n{told}\n>>\n====\n"
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


def _told(story: Story, groups: Groups) -> str:
    question, events = story.question, story.events
    asked_at = question.asked_at
    dues = [asked_at + step.after for step in question.steps]
    if question.expires_at is not None:
        dues[-1] = question.expires_at  # late actions have postponed it
    # TLC's numbers are small: instants are given by their order, which is all that matters.
    order = {at: place for place, at in enumerate(sorted({asked_at, *dues, *(event.at for event in events)}))}
    names = _Names()
    asked = {
        "asker": names[question.asker],
        "quorum": question.quorum,
        "veto": question.veto,
        "max": question.max_attempts or 0,
        "to": {names[each] for each in question.recipients},
        "approval": isinstance(question.form, Approval),
        "replies": question.replies is not None,
        "steps": [
            {"do": step.do, "to": {names[each] for each in step.to}, "at": order[due]}
            for step, due in zip(question.steps, dues, strict=True)
        ],
    }
    outcome = question.outcome
    stored = {
        "status": question.status.value,
        "attempts": question.attempts,
        "taken": question.steps_taken,
        "how": outcome.source if isinstance(outcome, Answered) else _HOW[question.status.value],
        "used": question.consumed_at is not None,
        "votes": len(question.votes),
        "thread": question.thread,
    }
    happened = [_event(event, question, order, names, groups) for event in events]
    return _tla({"asked": asked, "events": happened, "stored": stored})


def _event(
    event: Event, question: Question, order: Mapping[datetime, int], names: _Names, groups: Groups
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
    }


def _ballot(event: Event, data: Mapping[str, Any], question: Question, names: _Names) -> tuple[str, bool]:
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
        case dict():
            return "[" + ", ".join(f"{name} |-> {_tla(each)}" for name, each in value.items()) + "]"
        case set():
            return "{" + ", ".join(sorted(map(_tla, value))) + "}"
        case _:
            return "<<" + ", ".join(map(_tla, value)) + ">>"
