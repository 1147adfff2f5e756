"""Deciding about a question that has been answered: using its approval, taking that back, and reporting what came of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from handraise.model.events import EventKind
from handraise.model.forms import Approval
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.move_decisions import Right, is_still_right
from handraise.model.outcomes import Answered
from handraise.model.people import may_take_back
from handraise.model.questions import Question
from handraise.model.receipts import UsableApproval
from handraise.model.rulings import Ruling
from handraise.model.stops import Stop, stop_for


class SealedEnding(NamedTuple):
    """An event that ended a question, as its sealed history has it."""

    kind: str
    data: Json


class UseRefusal(StrEnum):
    """Why an approval cannot be used."""

    NOT_APPROVED = "not_approved"
    """It was not approved, for another asker, or with another action."""
    STOPPED = "stopped"
    USED = "used"
    TAKEN_BACK = "taken_back"
    HISTORY_DIFFERS = "history_differs"
    """Its sealed history does not say that it was approved."""
    LAPSED = "lapsed"
    GRANT_ENDED = "grant_ended"
    POLICY_CHANGED = "policy_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A use of the approval of an action by its asker, for a request; without one, a question whether it can be used.

    `decided_by` is what the policy says of it now.
    """

    by: str
    digest: str
    request: str | None = None
    decided_by: Ruling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRefused:
    """An approval that was not used, with its question as it was then. `stop` is the one that forbids it."""

    why: UseRefusal
    question: Question
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UseFacts:
    """What the use of an approval depends on, read after its question was locked.

    `policy_version` is the latest of the workspace, 0 for none. `is_rule_suspended` is about the rule by which the caller's
    ruling allows it. `is_repeated` says that the same request has used it before. `grant` is the one that it came from.
    """

    now: datetime
    endings: Sequence[SealedEnding]
    stops: Sequence[Stop] = ()
    policy_version: int = 0
    is_rule_suspended: bool = False
    is_repeated: bool = False
    grant: tuple[Grant, Right] | None = None
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disabled: Collection[str] = ()


def check_use(question: Question, use: Use, facts: UseFacts) -> UsableApproval | UseRefused:
    """Return until when an approval can be used, or why not."""

    def refused(why: UseRefusal, stop: Stop | None = None) -> UseRefused:
        return UseRefused(why=why, question=question, stop=stop)

    form, outcome = question.form, question.outcome
    if not isinstance(form, Approval) or not isinstance(outcome, Answered) or question.asker != use.by:
        return refused(UseRefusal.NOT_APPROVED)
    if outcome.value.get("decision") != "approve" or outcome.value.get("digest") != use.digest:
        return refused(UseRefusal.NOT_APPROVED)
    if (stop := stop_for(facts.stops, question)) is not None:
        return refused(UseRefusal.STOPPED, stop)
    if question.consumed_at is not None:
        return refused(UseRefusal.USED)
    if question.taken_back_at is not None:
        return refused(UseRefusal.TAKEN_BACK)
    if not _is_sealed(facts.endings, use.digest):
        return refused(UseRefusal.HISTORY_DIFFERS)
    ends = None if form.valid_for is None else outcome.at + timedelta(seconds=form.valid_for)
    if ends is not None and ends <= facts.now:
        return refused(UseRefusal.LAPSED)
    if outcome.source == "grant":
        if facts.grant is None:
            return refused(UseRefusal.GRANT_ENDED)
        grant, right = facts.grant
        still = is_still_right(question, grant.granted_by, right, known=facts.known, disabled=facts.disabled)
        if grant.revoked_at is not None or grant.expires_at <= facts.now or not still:
            return refused(UseRefusal.GRANT_ENDED)
        ends = grant.expires_at if ends is None else min(ends, grant.expires_at)
    if outcome.source == "policy":
        version = 0 if use.decided_by is None else use.decided_by.version
        if not version or version != facts.policy_version or facts.is_rule_suspended:
            return refused(UseRefusal.POLICY_CHANGED)
    return UsableApproval(facts.now, ends)


def can_be_taken_back(question: Question, person: str, *, administrator: bool) -> bool:
    """Whether this person can take back the approval now."""
    is_unused = question.consumed_at is None and question.taken_back_at is None
    decision = question.decision
    is_approved = decision is not None and decision.approved
    return is_approved and is_unused and may_take_back(question, person, administrator=administrator)


def can_be_reported(question: Question, asker: str) -> bool:
    """Whether this asker can report now what came of the answer. An approval must have been used."""
    if question.asker != asker or not isinstance(question.outcome, Answered) or question.report is not None:
        return False
    return not isinstance(question.form, Approval) or question.consumed_at is not None


def _is_sealed(endings: Sequence[SealedEnding], digest: str) -> bool:
    """Whether it ended once, with an approval of this digest."""
    match endings:
        case [SealedEnding(EventKind.ANSWERED, {"value": {"decision": "approve", "digest": str(approved)}})]:
            return approved == digest
        case _:
            return False
