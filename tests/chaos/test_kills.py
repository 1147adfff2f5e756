"""A thousand SIGKILLs of askers, answerers, servers, sweepers and dispatchers under load, and no promise broken.

The full size: python -m chaos kills --kills 5000
"""

from __future__ import annotations

import os

import pytest

from chaos.kills import run_kills, said

pytestmark = [pytest.mark.proof, pytest.mark.timeout(3_600)]

KILLS = int(os.environ.get("HANDRAISE_PROOF_SIGKILLS", "1000"))
ROLES = {"asker", "answerer", "sweeper", "dispatcher", "server", "remote_asker"}
OPS = {"ask", "answer", "decline", "withdraw", "vote", "expire", "read", "wait", "consume", "deliver"}


@pytest.mark.parametrize(("backend", "share"), [("postgres", 0.7), ("sqlite", 0.3)])
async def test_processes_killed_at_random_lose_double_and_invent_nothing(backend: str, share: float) -> None:
    number = round(KILLS * share)
    work = await run_kills(backend, number)
    said(backend, work)
    assert work.verdict is not None
    assert work.verdict.violations == []
    assert work.verdict.counts, "too little succeeded for this to show anything"
    assert work.drained, "it did not come to its end"
    assert work.kills.total() >= number
    assert set(work.kills) == ROLES
    assert {op for op, types in work.verdict.by_op.items() if types["ok"]} == OPS
