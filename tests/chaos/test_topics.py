"""Fifty processes ask the same: people see one question, and every process gets the one answer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from handraise import Answered, open_desk
from handraise.testing.promises import promise

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("starts fifty processes; the contract has many calls at once"),
    pytest.mark.timeout(300),
]

ASKERS = 50
ASKER = Path(__file__).with_name("topic_asker.py")


@promise("P4")
@pytest.mark.parametrize("address", ["postgres", "sqlite"], indirect=True)
async def test_many_processes_get_one_answer(address: str) -> None:
    async with open_desk(address, workspace="topic") as desk:
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, str(ASKER), address, f"agent-{n}"), stdout=asyncio.subprocess.PIPE
            )
            for n in range(ASKERS)
        ]
        async with asyncio.timeout(200):
            while len((await desk.list_pending(limit=100)).items) < ASKERS:
                ended = [process.returncode for process in processes if process.returncode is not None]
                assert ended == [], "an asker ended before there was an answer"
                await asyncio.sleep(0.1)
        asked = (await desk.list_pending(limit=100)).items
        inbox = (await desk.list_pending(recipient="ana")).items
        assert len(inbox) == 1
        leader = inbox[0]
        assert {each.follows for each in asked} == {None, leader.id}
        assert len(await desk.list_followers(leader.id, limit=100)) == ASKERS - 1
        await desk.answer(leader.id, 19, by="ana")
        async with asyncio.timeout(60):
            told = await asyncio.gather(*(process.communicate() for process in processes))
        assert [line for line, _ in told] == [b'["int", 19]\n'] * ASKERS
        for each in asked:
            history = await desk.history(each.id)
            assert [event.kind for event in history] == ["asked", "answered"]
            outcome = (await desk.get(each.id)).outcome
            assert isinstance(outcome, Answered)
            assert (outcome.by, outcome.source) == ("ana", "person" if each.id == leader.id else "shared")
    print(f"\n  {ASKERS} processes, one question in the inbox, one answer", end="")
