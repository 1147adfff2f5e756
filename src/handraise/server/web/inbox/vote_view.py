"""Votes on a page: who voted what, who agrees with whom, and whether agreement is still possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from handraise.model.agreement import (
    CastVote,
    can_still_agree,
    cast_votes,
    groups_too_small,
    most_agreeing,
    outdated_approvals,
    tally_votes,
)
from handraise.model.decisions import decision_of
from handraise.model.events import Event
from handraise.model.forms import AnyForm, Approval, Confirm
from handraise.model.json_values import Json
from handraise.model.lifecycle import RETURNED_BALLOT
from handraise.model.questions import Question
from handraise.model.visible import visible
from handraise.presentation.agreement_text import missing_people
from handraise.presentation.answer_text import AnswerPart, answer_parts
from handraise.presentation.names import channel_name, listed, recipient_name
from handraise.presentation.translation import gettext
from handraise.server.web.inbox.page_texts import When, since, voter_name
from handraise.server.web.inbox.value_view import Rows, changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One person who voted."""

    name: str
    mine: bool
    at: When
    channel: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Everybody who voted the same. All of it may be shown as it is, except `value`."""

    ballot: str
    value: Json = field(repr=False)
    """What to answer in order to agree; None to decline or to send back."""
    title: str
    ours: bool
    """Whether the title is in our words, not the agent's."""
    entries: tuple[AnswerPart, ...]
    changes: Rows | None
    voters: tuple[Voter, ...]

    @property
    def returns(self) -> bool:
        """Whether they sent it back."""
        return self.value is None and self.ballot == RETURNED_BALLOT

    @property
    def is_mine(self) -> bool:
        """Whether the person who looks is one of them."""
        return any(voter.mine for voter in self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """The state of the votes on a question."""

    quorum: int
    veto: bool
    sides: tuple[Side, ...]
    agreeing: int
    possible: bool
    too_few: str | None
    """Which groups have too few people for an agreement, in a sentence; None if votes stand in the way, or nothing does."""
    missing: str | None
    """Who is still needed, or None if that may be anybody."""
    outdated: tuple[str, ...] = ()
    """The names of the others who approved before the agent's last reply."""
    mine_outdated: bool = False
    """Whether the person who looks approved before it."""

    @property
    def mine(self) -> Side | None:
        """The vote of the person who looks."""
        return next((side for side in self.sides if side.is_mine), None)


def votes_of(
    question: Question,
    events: Sequence[Event],
    groups: Mapping[str, Collection[str]],
    *,
    me: str,
    now: datetime,
) -> Votes | None:
    """The votes, the largest group first; None if one person decides alone."""
    if not question.takes_votes:
        return None
    outdated = outdated_approvals(question, events)
    question = _without_votes_of(question, outdated, groups)
    found: dict[str, list[CastVote]] = {}
    for vote in cast_votes(question, events):
        found.setdefault(vote.ballot, []).append(vote)
    sides = sorted(found.values(), key=len, reverse=True)
    return Votes(
        quorum=question.quorum,
        veto=question.veto,
        sides=tuple(_side(question, votes, me, now) for votes in sides),
        agreeing=most_agreeing(question),
        possible=can_still_agree(question, groups),
        too_few=None if can_still_agree(question, groups) else _too_few(question, groups),
        missing=missing_people(question),
        outdated=tuple(voter_name(person, me) for person in outdated if person != me),
        mine_outdated=me in outdated,
    )


def _too_few(question: Question, groups: Mapping[str, Collection[str]]) -> str | None:
    small = groups_too_small(question, groups)
    if small is None:
        return None
    if not small:
        return gettext("An administrator has to change who may vote.")
    return gettext("An administrator has to add people to {groups}.").format(
        groups=listed([recipient_name(each) for each in small])
    )


def _without_votes_of(
    question: Question, people: Collection[str], groups: Mapping[str, Collection[str]]
) -> Question:
    """The question as its votes stand without those of these people."""
    if not people:
        return question
    votes = tuple(vote for vote in question.votes if vote.by not in people)
    tally = tally_votes(
        question.needs, votes, lambda person: [name for name, members in groups.items() if person in members]
    )
    return replace(question, votes=votes, missing=tally.missing)


def _side(question: Question, votes: Sequence[CastVote], me: str, now: datetime) -> Side:
    form = question.form
    value = _bare(form, votes[0].value)
    changes = None
    if isinstance(form, Approval) and value is not None:
        decision = decision_of(form, value)
        if decision.edited:
            changes = changed(form.action.arguments, decision.action.arguments)
    entries = () if value is None else answer_parts(form, value)
    if value is None:
        returns = votes[0].ballot == RETURNED_BALLOT
        title = gettext("Sent back") if returns else gettext("Declined to answer")
    else:
        title = next((each.text for each in entries if each.name is None), "")
    return Side(
        ballot=votes[0].ballot,
        value=value,
        title=title,
        ours=value is None or isinstance(form, (Approval, Confirm)),
        entries=tuple(each for each in entries if each.name is not None),
        changes=changes,
        voters=tuple(_voter(vote, me, now) for vote in votes),
    )


def _voter(vote: CastVote, me: str, now: datetime) -> Voter:
    return Voter(
        name=voter_name(vote.by, me),
        mine=vote.by == me,
        at=since(vote.at, now),
        channel=None if vote.channel is None else channel_name(vote.channel),
        reason=None if vote.reason is None else visible(vote.reason),
    )


def _bare(form: AnyForm, value: Json) -> Json:
    """What makes two votes agree: an approval without its reason."""
    if isinstance(form, Approval) and isinstance(value, dict):
        return {name: one for name, one in value.items() if name in ("decision", "arguments", "digest")}
    return value
