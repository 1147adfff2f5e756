"""Who answers for somebody who is away: at most two steps, never in a circle, never the asker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise.model.away import Away, away_problems, deputies_for, deputy_of
from handraise.model.drafting import Limits, compose
from handraise.model.forms import Approval
from handraise.model.questions import Draft, Need
from handraise.model.rulings import Match, Ruling

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def gone(deputy: str | None) -> Away:
    return Away(starts=NOW, until=NOW + DAY, deputy=deputy)


def drafted(*recipients: str, asker: str = "bot") -> Draft:
    return compose(
        "Go?", {"recipients": list(recipients)}, new_id="q", workspace="w", asker=asker, limits=Limits()
    )


@pytest.mark.parametrize(
    ("away", "deputy"),
    [
        ({}, None),
        ({"ana": None}, None),
        ({"ana": "bo"}, "bo"),
        ({"ana": "bo", "bo": "cy"}, "cy"),
        ({"ana": "bo", "bo": None}, None),
        ({"ana": "bo", "bo": "ana"}, None),
        ({"ana": "bo", "bo": "cy", "cy": "dan"}, None),
        ({"ana": "bo", "bo": "bo"}, None),
        ({"bo": "cy"}, None),
    ],
)
def test_a_deputy_is_followed_one_more_step(away: dict[str, str | None], deputy: str | None) -> None:
    assert deputy_of("ana", {name: gone(each) for name, each in away.items()}) == deputy


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from([None, *"abcde"])))
def test_who_answers_is_never_away_and_never_oneself(away: dict[str, str | None]) -> None:
    absent = {name: gone(each) for name, each in away.items()}
    for person in "abcd":
        deputy = deputy_of(person, absent)
        assert deputy not in {person, *absent}


def test_a_period_includes_its_beginning_and_not_its_end() -> None:
    away = gone(None)
    assert not away.covers(NOW - DAY)
    assert away.covers(NOW)
    assert away.covers(NOW + DAY / 2)
    assert not away.covers(NOW + DAY)


@pytest.mark.parametrize(
    ("away", "paths"),
    [
        (Away(starts=NOW, until=NOW + DAY, deputy="bo"), []),
        (Away(starts=NOW + DAY, until=NOW + 2 * DAY), []),
        (Away(starts=NOW - 2 * DAY, until=NOW - DAY), ["until"]),
        (Away(starts=NOW + DAY, until=NOW + DAY), ["until"]),
        (Away(starts=NOW, until=NOW + DAY, deputy="ana"), ["deputy"]),
    ],
)
def test_a_period_must_make_sense(away: Away, paths: list[str]) -> None:
    assert [each.path for each in away_problems("ana", away, NOW)] == paths


def test_the_deputies_of_those_who_are_named_are_asked_too() -> None:
    away = {"ana": gone("bo"), "cy": gone("bo"), "dan": gone("cy"), "eve": gone("fay")}
    assert deputies_for(drafted("ana", "cy", "gil"), away) == ("bo",)
    assert deputies_for(drafted("group:ana", "gil"), away) == ()
    assert deputies_for(drafted("ana", "bo"), away) == ()
    assert deputies_for(drafted(), away) == ()
    assert deputies_for(drafted("dan", "eve"), away) == ("bo", "fay")


def test_the_asker_is_never_a_deputy() -> None:
    away = {"ana": gone("bot"), "cy": gone("bo")}
    assert deputies_for(drafted("ana", "cy"), away) == ("bo",)


@pytest.mark.parametrize(
    ("ruling", "needs", "deputies"),
    [
        (Ruling(version=1, names_people=True), (), ()),
        (Ruling(version=1), (Need(people=("ana",), count=1),), ()),
        (None, (Need(people=("ana",), count=1),), ()),
        (Ruling(version=1, matches=(Match(rule="two of them", effect="require"),)), (), ("bo",)),
        (Ruling(version=1, matches=(Match(rule="small ones", effect="allow"),)), (), ("bo",)),
    ],
)
def test_nobody_answers_for_people_whom_the_policy_names(
    ruling: Ruling | None, needs: tuple[Need, ...], deputies: tuple[str, ...]
) -> None:
    ruled = replace(drafted("ana"), ruling=ruling, needs=needs)
    assert ruled.policy_decides_who == (not deputies)
    assert deputies_for(ruled, {"ana": gone("bo")}) == deputies


def test_nobody_answers_for_somebody_else_at_high_risk() -> None:
    """An administrator who sets somebody away could name themselves."""
    cases: tuple[tuple[Literal["low", "medium", "high"], tuple[str, ...]], ...] = (
        ("low", ("bo",)),
        ("medium", ("bo",)),
        ("high", ()),
    )
    for risk, expected in cases:
        draft = compose(
            "Go?",
            {"recipients": ["ana"], "form": Approval.of("pay", {"eur": 1}, risk=risk)},
            new_id="q",
            workspace="w",
            asker="bot",
            limits=Limits(),
        )
        assert deputies_for(draft, {"ana": gone("bo")}) == expected, risk
