"""Ten thousand waits in one process (500 in the gate), answered from another: all woken, over one listening connection.

As many as one likes: `HANDRAISE_PROOF_WAITS=1000000 pytest -m proof -s tests/proofs/test_many_waits.py -k ringing`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
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
    async with open_desk(postgres, workspace=workspace, connections=CONNECTIONS, poll_interval=POLL) as desk:
        questions = await asyncio.gather(*(desk.post(f"Which {n}?") for n in range(WAITS)))
        woken: list[float] = []
        waits = [asyncio.create_task(desk.wait(question.id)) for question in questions]
        for wait in waits:
            wait.add_done_callback(lambda _: woken.append(time.time()))
        listening, connected = await connections(postgres)
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


async def connections(address: str) -> tuple[int, int]:
    """How many connections of ours listen, and how many there are in all."""
    connection = await asyncpg.connect(address)
    names: list[str] = []
    try:
        async with asyncio.timeout(10):
            while "handraise listener" not in names:
                rows = await connection.fetch(
                    "select application_name from pg_stat_activity "
                    "where datname = current_database() and application_name like 'handraise%'"
                )
                names = [row["application_name"] for row in rows]
    finally:
        await connection.close()
    return names.count("handraise listener"), len(names)
