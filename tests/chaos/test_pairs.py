"""Every two transitions at the same time, in every order of their statements and commits; in the gate, some of both."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from chaos.pairs import explore, pairs_of
from chaos.pairs.scenes import SCENES
from handraise.backends.postgres import transaction
from support.database import POSTGRES
from tests.tiers import NIGHTLY, drawn, sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("two transitions at once end as one after the other would"),
    pytest.mark.timeout(1800),
]

MISTAKES = {
    "an answer over another": ("settle", r"and q\.status = 'pending'\s", "", "one must answer"),
    "an approval used twice": ("consume", r"and consumed_at is null\s", "", "approved"),
    "a sweep over an answer": (
        "sweep",
        r"for update of q skip locked|and q\.status = 'pending'\s+and q\.steps_taken = due\.steps_taken",
        "",
        "one must answer",
    ),
}


async def test_of_every_two_at_once_comes_what_comes_of_one_after_the_other() -> None:
    every = pairs_of(list(SCENES))
    assert len(every) == sum(len(each.deeds) * (len(each.deeds) + 1) // 2 for each in SCENES.values())
    chosen = drawn(every, 24)
    print("" if NIGHTLY else f"\n  drawn: {'; '.join(': '.join(each) for each in chosen)}")
    scenes = [name for name in SCENES if name in {each[0] for each in chosen}]
    tally = await explore(scenes, server=POSTGRES, at_most=sized(gate=6, nightly=100), only=set(chosen))
    print(f"  {tally}", end="")
    assert tally.found == []
    assert tally.pairs == len(chosen)
    assert tally.waits > sized(gate=1, nightly=100), (
        "hardly ever did one wait for the other: nothing was raced"
    )
    assert tally.deadlocks == 0


_SLOW = pytest.mark.slow("the two others show that the explorer finds mistakes")


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, marks=_SLOW if each == "a sweep over an answer" else ()) for each in MISTAKES],
)
async def test_a_statement_that_does_not_decide_is_found(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, old, new, scene = MISTAKES[mistake]
    right = transaction.STATEMENTS[name]
    wrong = replace(right, numbered=re.sub(old, new, right.numbered))
    assert wrong != right
    monkeypatch.setitem(transaction.STATEMENTS, name, wrong)
    assert (await explore([scene], server=POSTGRES, until_found=True)).found
