"""Ten thousand waits in one process (500 in the gate), answered from another: all woken, over one listening connection.

As many as one likes: `HANDRAISE_PROOF_WAITS=1000000 pytest -m proof -s tests/proofs/test_many_waits.py -k ringing`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import asyncpg
import pytest

from handraise import Answered, Outcome, open_desk
from tests.tiers import sized

pytestmark = [pytest.mark.proof, pytest.mark.timeout(3_600)]

WAITS = int(os.environ.get("HANDRAISE_PROOF_WAITS") or sized(gate=500, nightly=10_000))
CONNECTIONS, POLL = 4, 1.0
ANSWERER = Path(__file__).with_name("answerer.py")


@pytest.mark.parametrize("bell", ["ringing", "silent"])
async def test_ten_thousand_waits_are_all_woken(postgres: str, bell: str) -> None:
    workspace = f"waits-{bell}"
    others = await processes(postgres)
    async with open_desk(postgres, workspace=workspace, connections=CONNECTIONS, poll_interval=POLL) as desk:
        questions = await asyncio.gather(*(desk.post(f"Which {n}?") for n in range(WAITS)))
        woken: list[float] = []
        waits = [asyncio.create_task(desk.wait(question.id)) for question in questions]
        for wait in waits:
            wait.add_done_callback(lambda _: woken.append(time.time()))
        listening, connected = await connections(postgres, others)
        answering = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ANSWERER), postgres, workspace, bell), stdout=asyncio.subprocess.PIPE
        )
        outcomes: list[Outcome] = []
        async with asyncio.timeout(max(120, WAITS / 500)):
            outcomes = await asyncio.gather(*waits)
        printed, _ = await answering.communicate()

    assert [each.value for each in outcomes if isinstance(each, Answered)] == [q.prompt for q in questions]
    assert listening == 1
    assert connected <= CONNECTIONS
    late = max(woken) - float(printed)
    print(
        f"\n  {WAITS} waits, bell {bell}: last one woken {late:+.2f} s after the last answer was recorded, "
        f"{listening} listener, {connected} connections",
        end="",
    )
    # Twice the interval and the time to read ten thousand rows, which is long where the machine does much else.
    assert late < 2 * POLL + 10


async def processes(address: str) -> dict[int, str]:
    """The names of our connections in the database, by the process that serves each."""
    connection = await asyncpg.connect(address)
    try:
        rows = await connection.fetch(
            "select pid, application_name from pg_stat_activity "
            "where datname = current_database() and application_name like 'handraise%'"
        )
    finally:
        await connection.close()
    return {row["pid"]: row["application_name"] for row in rows}


async def connections(address: str, others: Collection[int]) -> tuple[int, int]:
    """How many connections listen, and how many there are in all, besides those of an earlier test that still linger."""
    names: list[str] = []
    async with asyncio.timeout(10):
        while "handraise listener" not in names:
            found = await processes(address)
            names = [name for process, name in found.items() if process not in others]
    return names.count("handraise listener"), len(names)
