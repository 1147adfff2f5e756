"""Whether people who must agree still can, without anybody changing a vote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from handraise import Confirm, Escalation, Question, Timeline
from handraise.model.agreement import can_still_agree, most_agreeing
from handraise.model.timelines import steps_of
from handraise.questions import Vote

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


def test_most_agreeing_counts_equal_ballots() -> None:
    assert [most_agreeing(voted(*ballots)) for ballots in ([], ["x"], ["x", "y", "x"])] == [0, 1, 2]
