"""Deciding a move: what it changes, or why nothing.

A store locks the question, reads the facts, calls `decide`, and saves the change, in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from handraise.model.agreement import newly_asked
from handraise.model.events import EventKind
from handraise.model.grants import Grant
from handraise.model.inbox_entries import InboxEntry, changed_entries
from handraise.model.json_values import Json
from handraise.model.lifecycle import OF_ASKERS, VOTES, Move, Refusal, is_open, transition
from handraise.model.outcomes import Answered, Status
from handraise.model.people import Responder, backing, still_may_respond
from handraise.model.questions import Question, Vote
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop, stop_for


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A move that changes nothing, with the question as it was when that was decided, or as it was known before.

    `stop` is the one that forbids it.
    """

    why: Refusal
    question: Question
    stop: Stop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changes in a question: the question itself, its entries in the inbox that differ, and the event that says so.

    If the question has ended, `data` is the record of its outcome, and it leaves the inbox. Without a `kind`, there is no
    event, because nobody has to know. `ballots` are all votes that
    were ever given, if there are any. `grant` is remembered with the right of its giver. `contradicts` is the standing
    answer whose spot check was answered differently, and `suspends` is the rule that one was denied of.
    """

    question: Question
    kind: EventKind | None
    data: dict[str, Json] = field(default_factory=dict, repr=False)
    by: str | None = None
    channel: str | None = None
    inbox: Sequence[InboxEntry] = ()
    ballots: Mapping[str, Ballot] = field(default_factory=dict)
    grant: tuple[Grant, Right] | None = None
    suspends: str | None = None
    contradicts: StandingAnswer | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the question has ended with it."""
        return self.question.outcome is not None


def decide(question: Question, move: Move, facts: Facts) -> Change | Refused:
    """Return what a move changes, or why it changes nothing."""
    if not is_open(question, facts.now):
        why = Refusal.EXPIRED if question.status is Status.PENDING else Refusal.SETTLED
        return Refused(why=why, question=question)
    if move.approves and (stop := stop_for(facts.stops, question)) is not None:
        return Refused(why=Refusal.STOPPED, question=question, stop=stop)
    if move.kind not in OF_ASKERS and move.by in facts.disabled:
        return Refused(why=Refusal.DISABLED, question=question)
    if move.kind == "grant" and not _grant_holds(question, facts):
        return Refused(why=Refusal.GRANT_ENDED, question=question)
    if move.kind != "reply" and move.seen not in (None, question.thread):
        return Refused(why=Refusal.THREAD_MOVED_ON, question=question)

    def counts(vote: Vote) -> bool:
        ballot = facts.ballots[vote.by]
        is_outdated = ballot.seen is not None and ballot.seen < question.replied
        return not is_outdated and is_still_right(
            question, vote.by, ballot.right, known=facts.known, disabled=facts.disabled
        )

    def groups_of(voter: str) -> Collection[str]:
        vouched = move.responder.groups if voter == move.by else facts.ballots[voter].right.groups
        return facts.known.get(voter, vouched)

    done = transition(question, move, facts.now, counts=counts, groups_of=groups_of)
    if isinstance(done, Refusal):
        return Refused(why=done, question=question)
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
        by=move.by,
        channel=move.channel,
        inbox=() if has_ended else changed_entries(question, after),
        ballots=ballots,
        grant=_new_grant(after, move, facts),
        suspends=ruling.checked if ruling is not None and has_ended and move.negative else None,
        contradicts=_contradicted(after, facts.standing) if has_ended and move.kind in VOTES else None,
    )


def is_still_right(
    question: Question,
    person: str,
    right: Right,
    *,
    known: Mapping[str, frozenset[str]],
    disabled: Collection[str],
) -> bool:
    """Whether somebody who voted, or gave a grant, by this right may still answer the question."""
    given = Responder(person, right.groups)
    return person not in disabled and still_may_respond(
        question, given, backed=right.backed, known=known.get(person)
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
        and is_still_right(question, grant.granted_by, right, known=facts.known, disabled=facts.disabled)
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


def _contradicted(after: Question, standing: StandingAnswer | None) -> StandingAnswer | None:
    """The standing answer, if a question that was a spot check of it ended differently."""
    if standing is None or standing.revoked_at is not None:
        return None
    is_same = isinstance(after.outcome, Answered) and after.outcome.value == standing.value
    return None if is_same else standing
