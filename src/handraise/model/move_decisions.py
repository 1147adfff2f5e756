"""Deciding a move: what it changes, or why nothing.

A store locks the question, reads the facts, calls `decide`, and saves the change, in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from handraise.model.agreement import newly_asked
from handraise.model.events import EventKind
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.lifecycle import OF_ASKERS, VOTES, Move, is_open, transition
from handraise.model.outcomes import Answered, Status
from handraise.model.people import Responder, backing, still_may_respond
from handraise.model.questions import Question, Vote
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop


class Right(NamedTuple):
    """By what right somebody voted or gave a grant.

    `backed` is what `backing` said then, and `groups` are those that the calling program vouched for.
    """

    backed: bool | None
    groups: frozenset[str]


class Ballot(NamedTuple):
    """A vote as it was given. `seen` is how many messages of the thread it covers; None if that does not matter."""

    right: Right
    seen: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a decision depends on besides the question and the move, read after the question was locked.

    `known` has the groups of everybody concerned whom the directory knows, and `disabled` who of them may do nothing.
    `ballots` are all votes that were ever given, also those that do not count any more. `grant` is the one that the move
    uses, with the right of its giver. `standing` is the standing answer that the question is a spot check of.
    """

    now: datetime
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    disabled: Collection[str] = ()
    stops: Sequence[Stop] = ()
    ballots: Mapping[str, Ballot] = field(default_factory=dict)
    grant: tuple[Grant, Right] | None = None
    standing: StandingAnswer | None = None


class Refusal(StrEnum):
    """Why a move changes nothing."""

    SETTLED = "settled"
    EXPIRED = "expired"
    STOPPED = "stopped"
    DISABLED = "disabled"
    GRANT_ENDED = "grant_ended"
    THREAD_MOVED_ON = "thread_moved_on"
    NOT_ALLOWED = "not_allowed"
    """The person is not asked, the asker cannot do that, or there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a move changes: the question, its ballots, and the event that says so.

    `grant` is remembered with the right of its giver. `contradicts` says that a spot check was answered differently than
    the standing answer, and `suspends` is the rule that one was denied of.
    """

    question: Question
    kind: EventKind
    data: dict[str, Json] = field(repr=False)
    ballots: Mapping[str, Ballot]
    grant: tuple[Grant, Right] | None = None
    suspends: str | None = None
    contradicts: bool = False


def decide(question: Question, move: Move, facts: Facts) -> Change | Refusal:
    """Return what a move changes, or why it changes nothing."""
    if not is_open(question, facts.now):
        return Refusal.EXPIRED if question.status is Status.PENDING else Refusal.SETTLED
    if move.approves and any(stop.covers(question) for stop in facts.stops):
        return Refusal.STOPPED
    if move.kind not in OF_ASKERS and move.by in facts.disabled:
        return Refusal.DISABLED
    if move.kind == "grant" and not _grant_holds(question, facts):
        return Refusal.GRANT_ENDED
    if move.kind != "reply" and move.seen not in (None, question.thread):
        return Refusal.THREAD_MOVED_ON

    def counts(vote: Vote) -> bool:
        ballot = facts.ballots[vote.by]
        is_outdated = ballot.seen is not None and ballot.seen < question.replied
        return not is_outdated and _is_still_right(question, vote.by, ballot.right, facts)

    def groups_of(voter: str) -> Collection[str]:
        vouched = move.responder.groups if voter == move.by else facts.ballots[voter].right.groups
        return facts.known.get(voter, vouched)

    done = transition(question, move, facts.now, counts=counts, groups_of=groups_of)
    if done is None:
        return Refusal.NOT_ALLOWED
    after, kind = done
    ballots, data, has_ended = facts.ballots, move.record, after.outcome is not None
    if question.takes_votes and move.kind in VOTES:
        ballots = {**ballots, move.by: Ballot(_right(question, move, facts), move.seen)}
    if kind is EventKind.VOTED:
        if uncounted := sorted(ballots.keys() - {vote.by for vote in after.votes}):
            data = {**data, "uncounted": uncounted}
        if asked := newly_asked(after, question.stage):
            data = {**data, "to": list(asked)}
    ruling = question.ruling
    return Change(
        question=after,
        kind=kind,
        data=data,
        ballots=ballots,
        grant=_new_grant(after, move, facts),
        suspends=ruling.checked if ruling is not None and has_ended and move.negative else None,
        contradicts=has_ended and move.kind in VOTES and _contradicts(after, facts.standing),
    )


def _is_still_right(question: Question, person: str, right: Right, facts: Facts) -> bool:
    """Whether somebody who voted, or gave a grant, by this right may still answer the question."""
    given = Responder(person, right.groups)
    return person not in facts.disabled and still_may_respond(
        question, given, backed=right.backed, known=facts.known.get(person)
    )


def _right(question: Question, move: Move, facts: Facts) -> Right:
    return Right(backing(question, move.by, facts.known.get(move.by)), move.responder.groups)


def _grant_holds(question: Question, facts: Facts) -> bool:
    if facts.grant is None:
        return False
    grant, right = facts.grant
    return (
        grant.asker == question.asker
        and grant.holds(facts.now, question.conversation)
        and _is_still_right(question, grant.granted_by, right, facts)
    )


def _new_grant(after: Question, move: Move, facts: Facts) -> tuple[Grant, Right] | None:
    """The grant that an approval with a wider scope creates."""
    new = move.new_grant
    if new is None or after.status is not Status.ANSWERED:
        return None
    lasts_until = facts.now + new.lasts
    grant = Grant(
        id=new.id,
        workspace=after.workspace,
        asker=after.asker,
        tool=new.tool,
        digest=new.digest,
        scope=new.scope,
        conversation=after.conversation,
        granted_by=move.by,
        question_id=after.id,
        created_at=facts.now,
        expires_at=lasts_until if new.until is None else min(lasts_until, new.until),
    )
    return grant, _right(after, move, facts)


def _contradicts(after: Question, standing: StandingAnswer | None) -> bool:
    """Whether a question ended differently than the standing answer that it was a spot check of."""
    if standing is None or standing.revoked_at is not None:
        return False
    return not (isinstance(after.outcome, Answered) and after.outcome.value == standing.value)
