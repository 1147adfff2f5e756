"""Every failpoint, each action, PostgreSQL and SQLite: whatever is struck, nothing is lost, doubled or invented.

Behind row-level security the statements are the same, so there each is struck in one way; all: python -m chaos failpoints
In the gate every third one is struck in one way, every day others and in another way.
"""

from __future__ import annotations

import pytest

from chaos.failpoints.catalog import WRITE_ANEW, load_points
from chaos.failpoints.injection import ACTIONS
from chaos.failpoints.runner import step_through
from tests.tiers import NIGHTLY, SEED, sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of(
        "whatever step of a transaction is struck, nothing is lost, doubled or invented"
    ),
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(
            "postgres", marks=pytest.mark.slow("the gate strikes the same statements behind row security")
        ),
        "confined",
        "sqlite",
    ],
)
async def test_whatever_is_struck_nothing_is_lost_doubled_or_invented(backend: str) -> None:
    once = backend == "confined" or not NIGHTLY
    turn, one_in = (0, 1) if NIGHTLY else (SEED, 3)
    # More at once in the gate: scenes wait more than they work.
    found = await step_through(
        [backend], once=once, turn=turn, one_in=one_in, at_once=sized(gate=4, nightly=2)
    )
    print(f"\n  {backend}, turn {turn}: {found.runs.total()} runs in {found.seconds:.0f} s", end="")
    strikes = (1 if once else len(ACTIONS)) * sum(map(len, load_points()[backend].values()))
    assert found.runs.total() == len(range(turn % one_in, strikes, one_in))
    assert found.missed == [], f"never reached; {WRITE_ANEW}"
    assert found.unlisted == set(), f"steps without a failpoint; {WRITE_ANEW}"
    assert found.broken == []
