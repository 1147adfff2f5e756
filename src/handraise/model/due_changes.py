"""What changes in a question without a move on it: by the clock, or because of another question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from handraise.model.events import EventKind
from handraise.model.inbox_entries import changed_entries
from handraise.model.json_values import Json
from handraise.model.lifecycle import ended_as, is_open
from handraise.model.move_decisions import Change
from handraise.model.outcomes import Answered, Declined, Outcome, Returned, Status
from handraise.model.questions import Question, changed
from handraise.model.rulings import POLICY

ORPHAN_RECORD: Mapping[str, Json] = {
    "by": f"{POLICY}close_orphans",
    "reason": "Nobody was waiting for the answer any more.",
}
"""How a question ends that the policy closes because nothing was heard of its asker."""


def due_change(question: Question, now: datetime) -> Change | None:
    """What the next due step of its timeline changes in a pending question; None if none is due."""
    if question.due_at is None or question.due_at > now:
        return None
    # At its end, the steps that nobody took in time are left out.
    step = question.next_step if is_open(question, now) else question.steps[-1]
    match step.do:
        case "expire":
            return expiry_change(question, now)
        case "default":
            record = step.record or {}
            after = ended_as(question, Status.ANSWERED, record, now)
            return Change(question=after, kind=EventKind.ANSWERED, data=record)
    after = changed(question, steps_taken=question.steps_taken + 1, stepped_at=now)
    entries = changed_entries(question, after)
    if step.do == "remind":
        return Change(question=after, kind=EventKind.REMINDED, inbox=entries)
    return Change(question=after, kind=EventKind.ESCALATED, data={"to": list(step.to)}, inbox=entries)


def expiry_change(question: Question, now: datetime) -> Change:
    """How a pending question expires, also in a recovery, which ends what is too old."""
    return Change(question=ended_as(question, Status.EXPIRED, {}, now), kind=EventKind.EXPIRED)


def orphan_change(question: Question, now: datetime) -> Change | None:
    """How a policy closes a pending question for which nobody waits; None if it is not time, or it expires instead."""
    if question.closes_at is None or question.closes_at > now or not is_open(question, now):
        return None
    record = dict(ORPHAN_RECORD)
    after = ended_as(question, Status.WITHDRAWN, record, now)
    return Change(question=after, kind=EventKind.WITHDRAWN, data=record, by=str(record["by"]))


def is_noted(heard_at: datetime, heartbeat: float, now: datetime) -> bool:
    """Whether a sign of an asker need not be stored, because one before it came shortly before."""
    return now - heard_at < timedelta(seconds=heartbeat / 10)


def replacement_change(old: Question, new_id: str, now: datetime) -> Change:
    """What changes in a question because its asker has asked another one instead: it is withdrawn if it is open."""
    data: dict[str, Json] = {"by": old.asker, "replaced_by": new_id}
    if not is_open(old, now):
        return Change(question=old, kind=EventKind.REPLACED, data={"replaced_by": new_id}, by=old.asker)
    after = ended_as(old, Status.WITHDRAWN, data, now)
    return Change(question=after, kind=EventKind.WITHDRAWN, data=data, by=old.asker)


def follower_changes(ended: Change | None, followers: Sequence[Question], now: datetime) -> list[Change]:
    """What changes in the pending questions that follow one that has ended, or was erased, the oldest first.

    If a person has decided, they end the same way, except what that person asks themselves. Of those that are left, the
    oldest is asked instead, and the others follow that one.
    """
    changes: list[Change] = []
    left: list[Question] = []
    for question in followers:
        change = None if ended is None else _shared_end(ended, question, now)
        if change is None:
            left.append(question)
        else:
            changes.append(change)
    for place, question in enumerate(left):
        after = changed(question, follows=None if place == 0 else left[0].id)
        kind = EventKind.OPENED if place == 0 else None
        changes.append(Change(question=after, kind=kind, inbox=changed_entries(question, after)))
    return changes


def _shared_end(ended: Change, question: Question, now: datetime) -> Change | None:
    """How a question ends because the one that it follows has; None if it does not."""
    leader, by = ended.question, ended.data.get("by")
    if not _is_shared(leader.outcome) or not is_open(question, now):
        return None
    if question.asker == by or any(vote.by == question.asker for vote in leader.votes):
        return None
    record: dict[str, Json] = {**ended.data, "source": "shared", "question": leader.id}
    return Change(
        question=ended_as(question, leader.status, record, now),
        kind=EventKind(leader.status.value),
        data=record,
        by=None if by is None else str(by),
        channel=ended.channel,
    )


def _is_shared(outcome: Outcome | None) -> bool:
    """Whether the outcome of a question also ends those that follow it: a person has decided."""
    return isinstance(outcome, (Declined, Returned)) or (
        isinstance(outcome, Answered) and outcome.source == "person"
    )
