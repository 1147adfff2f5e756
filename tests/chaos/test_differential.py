"""Random operations on memory, SQLite, PostgreSQL and over HTTP: the same calls give the same results everywhere.

Nightly there are four rounds with new stores: what a round takes grows with the square of its operations.

Larger: HANDRAISE_TIER=nightly HANDRAISE_PROOF_OPERATIONS=250000 pytest -m proof tests/chaos/test_differential.py -s
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from handraise import Desk, open_desk
from handraise.wire.credentials import Credentials
from support.issuer import issuer_at
from support.server_process import SharedClock, free_clock, server_process
from tests.conftest import own_database
from tests.differential.operations import Comparison, compare, new_id
from tests.tiers import SEED, sized

pytestmark = [
    pytest.mark.proof,
    pytest.mark.only_proof_of(
        "every desk gives the same results for the same calls, whatever the values are"
    ),
    pytest.mark.timeout(7200),
]

OPERATIONS = int(os.environ.get("HANDRAISE_PROOF_OPERATIONS") or sized(gate=800, nightly=25_000))
ROUNDS = sized(gate=1, nightly=4)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_the_same_operations_give_the_same_results_on_every_desk(tmp_path: Path, turn: int) -> None:
    free_clock(tmp_path / "clock")
    with (
        own_database() as local,
        own_database() as served,
        server_process(served, tmp_path / "clock", rate_limit="1000000/second") as server,
        issuer_at(served) as credentials,
    ):
        addresses = {
            "memory": "memory:",
            "sqlite": f"sqlite:///{tmp_path / 'questions.db'}",
            "postgres": local,
        }
        found = asyncio.run(_compared(addresses, server, credentials, SharedClock(tmp_path / "clock"), turn))
    counted = ", ".join(f"{name} {count}" for name, count in found.operations.most_common())
    print(f"\n  {found.operations.total()} operations, {found.questions} questions: {counted}", end="")
    assert found.questions > OPERATIONS / 20
    assert not found.differences, "\n" + "\n".join(map(str, found.differences.values()))


async def _compared(
    addresses: Mapping[str, str], server: str, credentials: Credentials, clock: SharedClock, turn: int
) -> Comparison:
    async with AsyncExitStack() as stack:
        desks: dict[str, Desk] = {
            name: await stack.enter_async_context(open_desk(address, clock=clock, new_id=new_id))
            for name, address in addresses.items()
        }
        desks["http"] = await stack.enter_async_context(
            open_desk(server, credentials=credentials, new_id=new_id)
        )
        return await compare(desks, clock, operations=OPERATIONS, seed=SEED + turn)
