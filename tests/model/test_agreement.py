"""Whether people who must agree still can, without anybody changing a vote."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from handraise import Confirm, Escalation, Expired, Question, Timeline
from handraise.model.agreement import (
    can_still_agree,
    groups_too_small,
    is_stranded,
    most_agreeing,
    tally_votes,
)
from handraise.model.questions import Need
from handraise.model.timelines import steps_of
from handraise.presentation.agreement_text import missing_people
from handraise.questions import Aside, Vote

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


def voted(
    *ballots: str, recipients: tuple[str, ...] = ("a", "b", "c"), quorum: int = 2, to: str = ""
) -> Question:
    escalate = (Escalation(after=timedelta(hours=1), to=(to,)),) if to else ()
    return Question(
        id="q",
        workspace="w",
        asker="bot",
        prompt="?",
        form=Confirm(),
        recipients=recipients,
        quorum=quorum,
        steps=steps_of(Timeline(escalate=escalate)) if to else (),
        votes=tuple(Vote(by, ballot) for by, ballot in zip("abcdefgh", ballots, strict=False)),
        asked_at=NOW,
    )


@pytest.mark.parametrize(
    ("question", "possible"),
    [
        (voted(), True),
        (voted("yes", "no"), True),
        (voted("400", "420", "deny"), False),
        (voted("yes", "no", quorum=3), False),
        (voted("yes", quorum=3), True),
        (voted("400", "420", "deny", to="d"), True),
        (voted("400", "420", "deny", recipients=()), True),
        (voted("1", "2", recipients=("group:ops",)), False),
        (voted("1", "2", recipients=("group:leads",)), True),
        (voted("1", "2", recipients=("group:unknown",)), True),
        (voted("1", "2", recipients=("a", "b", "bot")), False),
    ],
)
def test_agreement_is_possible_as_long_as_enough_people_are_left(
    question: Question, *, possible: bool
) -> None:
    assert can_still_agree(question, {"ops": ["a", "b"], "leads": ["a", "b", "c"]}) is possible


def test_who_was_brought_in_may_vote_too() -> None:
    alone = voted(recipients=("group:solo",))
    groups = {"solo": ["a"]}
    assert groups_too_small(alone, groups) == ["group:solo"]
    assert groups_too_small(replace(alone, added=("d",)), groups) is None


def test_most_agreeing_counts_equal_ballots() -> None:
    assert [most_agreeing(voted(*ballots)) for ballots in ([], ["x"], ["x", "y", "x"])] == [0, 1, 2]


FINANCE_AND_LEGAL = (Need(("group:finance",)), Need(("group:legal", "z")))
STAGED = (Need(("a", "b")), Need(("group:legal",), 2, 1))


@pytest.mark.parametrize(
    ("ballots", "needs", "missing", "met"),
    [
        ("", FINANCE_AND_LEGAL, (), []),
        ("x", FINANCE_AND_LEGAL, (0, 1), []),
        ("xx", FINANCE_AND_LEGAL, (0, 1), []),
        ("xxx", FINANCE_AND_LEGAL, (0, 0), ["x"]),
        ("xxy", FINANCE_AND_LEGAL, (0, 1), []),
        ("y-x", FINANCE_AND_LEGAL, (1, 0), []),
        ("xyx", STAGED, (0, 1), []),
        ("--x", STAGED, (1, 1), []),
        ("-xyx", STAGED, (0, 1), []),
        ("-xxx", STAGED, (0, 0), ["x"]),
    ],
)
def test_a_need_lacks_its_people_who_do_not_agree(
    ballots: str, needs: tuple[Need, ...], missing: tuple[int, ...], met: list[str]
) -> None:
    groups = {"a": {"finance"}, "b": {"finance"}, "c": {"legal"}, "d": {"legal"}}
    votes = [Vote(by, ballot) for by, ballot in zip("abcd", ballots, strict=False) if ballot != "-"]
    tally = tally_votes(needs, votes, lambda person: groups[person])
    assert tally.missing == missing
    assert [
        ballot for ballot in sorted({vote.ballot for vote in votes}) if tally.are_needs_met(ballot)
    ] == met


@pytest.mark.parametrize(
    ("missing", "stage", "audience"),
    [
        ((), 0, ("a", "b")),
        ((1, 2), 0, ("a", "b")),
        ((0, 1), 1, ("group:legal",)),
        ((0, 0), None, ("a", "b", "c")),
    ],
)
def test_the_first_stage_in_which_somebody_is_missing_is_open(
    missing: tuple[int, ...], stage: int | None, audience: tuple[str, ...]
) -> None:
    question = replace(voted(), needs=STAGED, missing=missing)
    assert (question.stage, question.audience, question.eligible) == (stage, audience, ("a", "b", "c"))


def test_without_stages_everybody_is_asked_at_once() -> None:
    question = replace(voted(), needs=FINANCE_AND_LEGAL)
    assert (question.stage, question.audience) == (None, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("ballots", "possible"),
    [([], True), (["x", "x", "y"], False), (["x", "y", "x"], True), (["x", "x", "y", "x"], True)],
)
def test_agreement_is_possible_as_long_as_the_people_of_each_need_are_left(
    ballots: list[str], *, possible: bool
) -> None:
    groups = {"finance": ["a", "b"], "legal": ["c"]}
    needs = (Need(("group:finance",)), Need(("group:legal",)))
    recipients = ("group:finance", "group:legal", "d")
    question = replace(voted(*ballots, recipients=recipients), needs=needs)
    assert can_still_agree(question, groups) is possible
    assert can_still_agree(question, {}), "a group that is not known may have other people"


@pytest.mark.parametrize(
    ("needs", "missing", "words"),
    [
        ((Need(("group:finance",)),), (), "somebody from finance"),
        ((Need(("group:finance",), 3), Need(("ana",))), (2, 1), "2 people from finance and ana"),
        ((Need(("group:finance",)), Need(("ana", "group:ops"))), (0, 1), "one of ana and the group ops"),
        ((Need(("a",)), Need(("b",), 1, 1), Need(("c",), 1, 2)), (0, 1, 1), "b, then c"),
        ((Need(("a",)),), (0,), None),
        ((), (), None),
    ],
)
def test_who_is_still_needed_is_said(
    needs: tuple[Need, ...], missing: tuple[int, ...], words: str | None
) -> None:
    assert missing_people(replace(voted(), needs=needs, missing=missing)) == words


def away(*people: str, recipients: tuple[str, ...] = ("a", "b")) -> Question:
    return replace(voted(recipients=recipients), aside=tuple(Aside(each, None) for each in people))


@pytest.mark.parametrize(
    ("question", "followed", "stranded"),
    [
        (away(), None, False),
        (away("a"), None, False),
        (away("a", "b"), None, True),
        (replace(away("a", "b"), steps=steps_of(Timeline(expire=timedelta(hours=1)))), None, False),
        (replace(away("a"), aside=(Aside("a", None), Aside("b", NOW))), None, False),
        (away("a", "b", recipients=("group:ops",)), None, True),
        (away("a", recipients=("group:ops",)), None, False),
        (away("a", "b", recipients=("group:unknown",)), None, False),
        (away("a", "b", recipients=()), None, False),
        (away("a", "b", "c", recipients=()), None, True),
        (replace(away(), follows="p"), None, True),
        (replace(away(), follows="p"), voted(), False),
        (replace(away(), follows="p"), replace(voted(), follows="o"), True),
        (replace(away(), follows="p"), replace(voted(), outcome=Expired(at=NOW)), True),
    ],
)
def test_a_question_is_stranded_if_it_is_in_nobodys_inbox_for_ever(
    question: Question, followed: Question | None, *, stranded: bool
) -> None:
    assert is_stranded(question, followed, {"ops": ["a", "b"]}, {"a", "b", "c"}) is stranded
