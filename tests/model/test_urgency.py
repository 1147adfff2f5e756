"""The order by urgency: from any place at any moment, it is two walks along ranks that do not change."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product

from handraise import Approval, Open, Question
from handraise.model.forms import Risk
from handraise.model.timelines import Step
from handraise.model.urgency import Walk, all_walks, rank_at, soon_at, urgency_of, walks_after

NOW = datetime(2026, 11, 19, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPANS = (None, HOUR / 2, HOUR, HOUR + timedelta(seconds=1), 480 * HOUR)


def test_from_any_place_the_walks_have_exactly_what_comes_after_it() -> None:
    soon = soon_at(NOW)
    risks: tuple[Risk | None, ...] = (None, "low", "high")
    kinds = product((0, 1), risks, SPANS, (0, 1))
    known = [(urgency_of(question(*kind)), str(number)) for number, kind in enumerate(kinds)]
    listed = sorted((rank_at(rank, soon), question_id) for rank, question_id in known)
    assert walked(known, all_walks(), soon) == listed
    for place, (rank, question_id) in enumerate(listed):
        assert walked(known, walks_after(rank, question_id, soon), soon) == listed[place + 1 :]


def question(steps_taken: int, risk: Risk | None, span: timedelta | None, asked_back: int) -> Question:
    return Question(
        id="q",
        workspace="w",
        asker="agent",
        prompt="?",
        form=Open() if risk is None else Approval.of("pay", {}, risk=risk),
        asked_at=NOW,
        asked_back=asked_back,
        steps=(Step(HOUR, "escalate"), *(() if span is None else (Step(span, "expire"),))),
        steps_taken=steps_taken,
    )


def walked(known: Iterable[tuple[int, str]], walks: Iterable[Walk], soon: int) -> list[tuple[int, str]]:
    """What a store finds along these walks, merged."""
    return sorted(
        (rank_at(rank, soon), question_id)
        for walk in walks
        for rank, question_id in known
        if (rank, question_id) > (walk.rank, walk.after) and rank < walk.until
    )
