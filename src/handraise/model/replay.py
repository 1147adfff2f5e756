"""Replay the history of a question, which must agree with its row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple

from handraise.model.json_values import Json
from handraise.model.outcomes import Outcome, Status, outcome_of
from handraise.model.people import GROUP
from handraise.model.questions import Need, Question, needs_from_json
from handraise.model.reports import Report, report_of
from handraise.model.rulings import POLICY
from handraise.model.seals import instant_text
from handraise.model.thread_messages import MESSAGE_KINDS

ENDINGS = frozenset(status.value for status in Status if status is not Status.PENDING)
"""Kinds of events that settle a question."""
_SHARING = frozenset({"taken", "released", "brought_in", "handed_over", "set_aside", "put_back"})
_WHILE_PENDING = MESSAGE_KINDS | _SHARING | {"attempted", "voted", "reminded", "escalated", "sent", "joined"}
_CHECKED = ("asker", "recipients", "steps", "quorum", "needs", "ruling", "replies")
"""What is kept of a question as it was asked."""
_WITH_DATA = frozenset({"asked", "voted", "reported", "brought_in", "handed_over"})
"""Other kinds of events whose data is checked."""
_OF_APPROVALS = frozenset({"consumed", "taken_back"})


def row_record(question: Question) -> dict[str, Json]:
    """The state of a question according to its row."""
    return {
        "question": question.id,
        "status": question.status.value,
        "ending": None if question.outcome is None else _ending(question.outcome),
        "consumed": question.consumed_at is not None,
        "taken_back": question.taken_back_at is not None,
        "report": None if question.report is None else _report(question.report),
        "thread": question.thread,
        "added": list(question.added),
    }


class _Step(NamedTuple):
    """The parts of an event that are checked."""

    order: int
    place: int
    cursor: str
    kind: str
    by: str | None
    at: str
    data: Any


class Inconsistency(NamedTuple):
    """Something that cannot have happened to a question, or that disagrees with its row.

    `place` is the event's, if any.
    """

    why: str
    place: int | None = None
    cursor: str | None = None


class QuestionReplay:
    """The events of one question, added in any order, to be compared with its row."""

    __slots__ = ("_asked", "_steps")

    def __init__(self) -> None:
        self._asked: dict[str, Any] = {}
        self._steps: list[_Step] = []

    def take(self, record: dict[str, Any], place: int = 0) -> None:
        """Add an event as it was sealed. Its `place` is returned if it is the one that does not fit."""
        kind, data = record["kind"], record["data"]
        if kind == "asked" and isinstance(record.get("asked"), dict):
            asked, form = record["asked"], record["asked"].get("form")
            self._asked = {name: asked.get(name) for name in _CHECKED}
            self._asked["kind"] = form.get("kind") if isinstance(form, dict) else None
        # The feed is ordered by transaction. The events of one question are ordered by the last number of
        # their places.
        order = int(record["cursor"].rpartition(".")[2])
        kept = data if kind in ENDINGS or kind in _OF_APPROVALS or kind in _WITH_DATA else None
        self._steps.append(_Step(order, place, record["cursor"], kind, record["by"], record["at"], kept))

    @property
    def cursors(self) -> set[str]:
        """The places of its events."""
        return {step.cursor for step in self._steps}

    def find_inconsistency(self, row: dict[str, Any]) -> Inconsistency | None:
        """Find what is wrong with the events, or how the row differs from them; None if they are right."""
        try:
            return self._find_inconsistency(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return Inconsistency(f"what happened to the question cannot be read: {error!r}")

    def _find_inconsistency(self, row: dict[str, Any]) -> Inconsistency | None:
        ending: _Step | None = None
        reported: _Step | None = None
        used: set[str] = set()
        votes: dict[str | None, Json] = {}
        added: list[str] = []
        thread = 0
        for number, step in enumerate(sorted(self._steps, key=lambda step: step.order)):
            where = (step.place, step.cursor)
            if (step.kind == "asked") != (number == 0):
                return Inconsistency("a question is asked first, and once", *where)
            if (step.kind in ENDINGS or step.kind in _WHILE_PENDING) and ending is not None:
                return Inconsistency(
                    f"the question was {ending.kind} before, so this cannot have happened", *where
                )
            if step.kind in _SHARING and step.by == self._asked.get("asker", ""):
                return Inconsistency("the asker cannot do what is for people", *where)
            if step.kind in ("asked", "brought_in", "handed_over"):
                added += (step.data or {}).get("to", [])
            if step.kind in MESSAGE_KINDS:
                if why := self._why_not_written(step):
                    return Inconsistency(why, *where)
                thread += 1
                if step.kind == "replied":  # who had approved before must approve again
                    votes = {voter: vote for voter, vote in votes.items() if not _is_approval(vote)}
            if step.kind == "voted" or step.kind in ENDINGS:
                votes[step.by] = (step.data or {}).get("value")
                if _is_uncovered(step, thread):
                    return Inconsistency("the approval does not cover the whole conversation", *where)
            if step.kind in ENDINGS:
                if why := self._why_not(step, votes, added):
                    return Inconsistency(why, *where)
                ending = step
            if step.kind in _OF_APPROVALS:
                if used or ending is None or not _approves(ending, step):
                    return Inconsistency("there was no approval that this could be about", *where)
                used.add(step.kind)
            if step.kind == "reported":
                if reported is not None:
                    return Inconsistency("a report is made once", *where)
                if why := self._why_not_reported(step, ending, used):
                    return Inconsistency(why, *where)
                reported = step
        said = {
            **self._expected(ending, used),
            "added": list(dict.fromkeys(added)),
            "report": None if reported is None else _report(_reported(reported)),
            "thread": thread,
        }
        differing = [name for name, value in said.items() if not _same(value, row.get(name))]
        if differing:
            return Inconsistency(
                f"the row of the question says something else than its events: {', '.join(differing)}"
            )
        return None

    def _why_not(self, step: _Step, votes: dict[str | None, Json], added: Sequence[str]) -> str | None:
        """Why the question cannot have ended like this, or None."""
        data = step.data or {}
        if step.kind == "withdrawn" and (step.by or "").startswith(POLICY):
            closes = (self._asked.get("ruling") or {}).get("close_orphans")
            return None if closes else "the policy does not close this question"
        if step.kind not in ("answered", "declined", "returned"):
            return None
        if data.get("source") == "policy":
            return self._why_not_by_policy(step)
        if data.get("source") in ("shared", "standing"):
            return self._why_not_for_another(step)
        if data.get("source", "person") != "person":
            return None
        if step.by == self._asked.get("asker"):
            return "the asker cannot answer"
        value = data.get("value")
        if step.kind in ("declined", "returned") or (
            isinstance(value, dict) and value.get("decision") == "deny"
        ):
            return None
        agreeing = {voter for voter, vote in votes.items() if _agree(vote, value)}
        escalated = [name for each in self._asked.get("steps") or () for name in each["to"]]
        recipients = self._asked.get("recipients") or []
        others = [*escalated, *added]
        if recipients and step.by not in _among([*recipients, *others], {step.by}):
            return f"{step.by!r} was not asked"
        needs = needs_from_json(self._asked.get("needs") or [])
        everybody = Need((*recipients, *others) if recipients else (), self._asked.get("quorum") or 1)
        for need in (everybody, *needs):
            found = _among(need.people, agreeing) if need.people else agreeing
            if len(found) < need.count:
                return (
                    f"{need.count} people had to agree, and only {len(found)} did: {', '.join(need.people)}"
                )
        return None

    def _why_not_for_another(self, step: _Step) -> str | None:
        """Why the answer to another question cannot have ended it, or None."""
        if "asker" not in self._asked:
            return None
        if self._asked["kind"] == "approval":
            return "an approval is never answered by the answer to another question"
        if step.by == self._asked["asker"]:
            return "the asker cannot answer"
        recipients = self._asked.get("recipients") or []
        is_asked = not recipients or step.by in _among(recipients, {step.by})
        if (step.data or {}).get("source") == "standing" and not is_asked:
            return f"{step.by!r} was not asked"
        return None

    def _why_not_by_policy(self, step: _Step) -> str | None:
        """Why no rule of the ruling can have ended it like this, or None."""
        enforced = [
            each for each in (self._asked.get("ruling") or {}).get("matches", ()) if each["mode"] == "enforce"
        ]
        value = (step.data or {}).get("value")
        approves = isinstance(value, dict) and value.get("decision") == "approve"
        rules = {
            POLICY + each["rule"] for each in enforced if each["effect"] == ("allow" if approves else "deny")
        }
        if step.by not in rules or (approves and any(each["effect"] != "allow" for each in enforced)):
            return "the policy did not decide this, according to the rules that matched"
        return None

    def _why_not_written(self, step: _Step) -> str | None:
        """Why this message cannot have been written, or None."""
        if "asker" not in self._asked:
            return None
        if (step.kind == "replied") != (step.by == self._asked["asker"]):
            return "only the asker replies, and only people ask it back or note something"
        if step.kind == "asked_back" and self._asked.get("replies") is None:
            return "the asker cannot reply, so nobody can have asked it back"
        return None

    def _why_not_reported(self, step: _Step, ending: _Step | None, used: set[str]) -> str | None:
        """Why nothing can have been reported then, or None."""
        if ending is None or ending.kind != "answered":
            return "the question was not answered, so nothing can have come of it"
        if "asker" in self._asked and step.by != self._asked["asker"]:
            return "only the asker can report"
        if self._asked.get("kind") == "approval" and "consumed" not in used:
            return "the approval was not used, so nothing can have come of it"
        return None

    def _expected(self, ending: _Step | None, used: set[str]) -> dict[str, Json]:
        said: dict[str, Json] = {"status": "pending", "ending": None}
        if ending is not None:
            outcome = outcome_of(ending.kind, datetime.fromisoformat(ending.at), ending.data or {})
            said = {"status": ending.kind, "ending": _ending(outcome)}
        return {**said, "consumed": "consumed" in used, "taken_back": "taken_back" in used}


def _approves(ending: _Step, used: _Step) -> bool:
    value = (ending.data or {}).get("value")
    if not isinstance(value, dict) or value.get("decision") != "approve":
        return False
    return used.kind != "consumed" or (used.data or {}).get("digest") == value.get("digest")


def _is_approval(value: Json) -> bool:
    return isinstance(value, dict) and value.get("decision") == "approve" and "digest" in value


def _is_uncovered(step: _Step, thread: int) -> bool:
    """Whether a person approved an action after messages that they had not seen."""
    data = step.data or {}
    is_persons = data.get("source", "person") == "person"
    return is_persons and _is_approval(data.get("value")) and (data.get("seen") or 0) != thread


def _among(names: Collection[str], people: set[str | None]) -> set[str | None]:
    """Which people are among these names. The trail does not say who is in a group, so anyone may be."""
    return people if any(name.startswith(GROUP) for name in names) else people.intersection(names)


def _agree(one: Json, other: Json) -> bool:
    """Whether two votes agree; a reason does not count."""
    if isinstance(one, dict) and isinstance(other, dict) and "decision" in other:
        return all(one.get(name) == other.get(name) for name in ("decision", "digest"))
    return _same(one, other)


def _reported(step: _Step) -> Report:
    return report_of(datetime.fromisoformat(step.at), step.data)


def _report(report: Report) -> dict[str, Json]:
    return {**report.record(), "at": instant_text(report.at)}


def _ending(outcome: Outcome) -> dict[str, Json]:
    return {
        each.name: instant_text(outcome.at) if each.name == "at" else getattr(outcome, each.name)
        for each in fields(outcome)
    }


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same, however a database writes numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        try:
            return one == other or float(one) == float(other)
        except OverflowError:
            return False
    return bool(one == other)
