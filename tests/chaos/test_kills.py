"""A thousand SIGKILLs (in the gate a few) of askers, answerers, servers, sweepers and dispatchers, and no promise broken.

The full size: python -m chaos kills --kills 5000
"""

from __future__ import annotations

import os

import pytest

from chaos.kills import run_kills, said
from tests.tiers import sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of("whoever is killed at any moment, nothing is lost, doubled or invented"),
    pytest.mark.timeout(3_600),
]

KILLS = int(os.environ.get("HANDRAISE_PROOF_SIGKILLS") or sized(gate=30, nightly=1_000))
EVERYBODY = 500
"""A few kills need not hit everybody, but so many do."""
ROLES = {"asker", "answerer", "sweeper", "dispatcher", "server", "remote_asker"}
OPS = {"ask", "answer", "decline", "withdraw", "vote", "expire", "read", "wait", "consume", "deliver"}


@pytest.mark.parametrize(("backend", "share"), [("postgres", 0.7), ("sqlite", 0.3)])
async def test_processes_killed_at_random_lose_double_and_invent_nothing(backend: str, share: float) -> None:
    number = round(KILLS * share)
    work = await run_kills(backend, number)
    for _ in range(2):
        said(backend, work)
        # On a busy machine too little may succeed. Such a run proves nothing, in either direction: it is made again.
        if work.verdict is not None and not work.verdict.violations and not work.verdict.counts:
            work = await run_kills(backend, number)
    assert work.verdict is not None
    assert work.verdict.violations == []
    assert work.verdict.counts, "too little succeeded for this to show anything"
    assert work.drained, "it did not come to its end"
    assert work.kills.total() >= number
    if KILLS >= EVERYBODY:
        assert set(work.kills) == ROLES
        assert {op for op, types in work.verdict.by_op.items() if types["ok"]} == OPS
