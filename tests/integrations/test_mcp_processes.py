"""Servers and agents that are killed while they wait, and others that go on with the answer."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from handraise import open_desk
from tests.integrations import app_mcp
from tests.integrations.app_mcp_clients import CANCEL, LEGACY, MODERN, AtClient, Filled, parts_of
from tests.integrations.cells import killed_in_the_gate, more_processes, shows
from tests.integrations.processes import asked, people, started, until

ROOT = Path(__file__).parent.parent.parent
APP = Path(__file__).with_name("app_mcp.py")
EXAMPLE = ROOT / "examples" / "integrations" / "mcp_agent.py"
PAGE = ROOT / "docs" / "integrations" / "mcp.md"
SOON = 60.0
STRATEGY = {"question": "Which strategy?", "choices": ["Blue-green", "Canary"]}


@shows("mcp", "survives kill", "resumes elsewhere")
@killed_in_the_gate
async def test_a_server_is_killed_while_a_call_waits_and_another_one_collects_the_answer_by_its_id(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAISE_URL", postgres)
    monkeypatch.setenv("PID_FILE", str(tmp_path / "pid"))

    async def is_killed() -> Filled:
        # The form is there, so the call waits.
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        await asyncio.Event().wait()
        return CANCEL

    async with open_desk(asker="deployer") as desk, asyncio.timeout(SOON):
        with pytest.raises((MCPError, ExceptionGroup)):
            async with Client(
                app_mcp.server(), mode=LEGACY, elicitation_callback=AtClient([is_killed])
            ) as client:
                await client.call_tool("ask_human", STRATEGY)
        [question] = await asked(desk)
        await desk.answer(question.id, "Canary", by="bo")
        async with Client(app_mcp.server(), mode=MODERN) as client:
            result = parts_of(await client.call_tool("collect_answer", {"question_id": question.id}))
    assert (result["status"], result["value"], result["by"]) == ("answered", "Canary", "bo")


@shows("mcp", "survives kill", "resumes elsewhere", "asks once")
@more_processes
async def test_an_agent_is_killed_while_it_waits_and_the_next_one_goes_on_with_the_same_question(
    tmp_path: Path,
) -> None:
    url, journal = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "journal"
    journal.touch()
    pid_file = str(tmp_path / "pid")
    async with people(url) as desk:
        async with started(APP, "agent", journal, MODERN, HANDRAISE_URL=url, PID_FILE=pid_file) as agent:
            [question] = await asked(desk)
            await agent.kill()
        server = int((tmp_path / "pid").read_text())
        await until(lambda: not is_alive(server))  # nobody is at its stdin any more
        await desk.answer(question.id, "Canary", by="bo")
        async with started(APP, "agent", journal, LEGACY, HANDRAISE_URL=url, PID_FILE=pid_file) as agent:
            assert await agent.ends() == 0, agent.said
        assert question.asker == "deployer"
        assert (await desk.list_pending()).items == []
        assert [each.id for each in (await desk.list_settled()).items] == [question.id]
    assert journal.read_text().splitlines() == ["built", "deployed as Canary"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@more_processes
async def test_the_page_shows_a_program_that_runs(tmp_path: Path) -> None:
    [shown] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown == EXAMPLE.read_text(encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    async with people(f"sqlite:///{tmp_path / 'questions.db'}") as desk:
        async with started(EXAMPLE, folder=tmp_path, PATH=path) as agent:
            [question] = await asked(desk)
            await desk.answer(question.id, "Canary", by="bo")
            assert await agent.ends() == 0, agent.said
        assert "'text': 'Canary'" in agent.said[-1]
