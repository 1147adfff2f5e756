"""Every failpoint, each action, PostgreSQL and SQLite: whatever is struck, nothing is lost, doubled or invented.

Behind row-level security the statements are the same, so there each is struck in one way; all: python -m chaos failpoints
"""

from __future__ import annotations

import pytest

from chaos.failpoints.listed import POINTS
from chaos.failpoints.stepping import step_through
from chaos.failpoints.striking import ACTIONS

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900)]


@pytest.mark.parametrize("backend", POINTS)
async def test_whatever_is_struck_nothing_is_lost_doubled_or_invented(backend: str) -> None:
    once = backend == "confined"
    found = await step_through([backend], once=once)
    print(f"\n  {backend}: {found.runs.total()} runs in {found.seconds:.0f} s", end="")
    assert found.runs.total() == (1 if once else len(ACTIONS)) * sum(map(len, POINTS[backend].values()))
    assert found.missed == [], "never reached"
    assert found.unlisted == set(), "steps without a failpoint"
    assert found.broken == []
