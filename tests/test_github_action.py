"""The action for a step of a workflow: what GitHub reads, and what its script does at a real server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from handraise import Approval, Desk, Question, __version__, open_desk
from handraise.desk_factory import open_backend
from support.issuer import Issuer
from support.server_process import SharedClock, start_server

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "github-action"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
TOOLS = Path(sys.executable).parent
WITHIN = 30.0


def test_no_value_of_a_workflow_gets_into_a_script() -> None:
    """It would be run: each comes through the environment."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    names = {
        each.removeprefix("ASK_") for each in ACTION["runs"]["steps"][1]["env"] if each.startswith("ASK_")
    }
    assert names == {"PROMPT", "TOOL", "ARGUMENTS", "RECIPIENTS", "EXPIRES", "TIMEOUT", "KEY"}


def test_the_installing_step_pins_this_release_and_gets_no_key() -> None:
    install, ask = ACTION["runs"]["steps"]
    assert ACTION["inputs"]["install"]["default"] == f"handraise[cli]=={__version__}"
    assert install["env"] == {"INSTALL": "${{ inputs.install }}", "HANDRAISE_KEY": ""}, (
        "not one of the job either"
    )
    assert "HANDRAISE_KEY" in ask["env"]


@pytest.mark.slow("loads a large schema; the action seldom changes, and GitHub names such a mistake itself")
def test_it_is_what_the_schema_of_actions_asks_for() -> None:
    done = subprocess.run(
        [TOOLS / "check-jsonschema", "--builtin-schema", "vendor.github-actions", FOLDER / "action.yml"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Step:
    """A runner that executes the script of the action, and a server with people."""

    def __init__(self, folder: Path, url: str, key: str, desk: Desk) -> None:
        self.folder, self.url, self.key, self.desk = folder, url, key, desk

    async def start(self, **given: str) -> asyncio.subprocess.Process:
        asked = dict.fromkeys(("ARGUMENTS", "RECIPIENTS", "EXPIRES", "TOOL"), "")
        asked |= {"PROMPT": "Go out?", "TIMEOUT": "20s", "KEY": "shop/7"} | given
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HANDRAISE_")},
            **{f"ASK_{name}": value for name, value in asked.items()},
            "PATH": f"{TOOLS}:{os.environ['PATH']}",
            "HANDRAISE_URL": self.url,
            "HANDRAISE_KEY": self.key,
            "GITHUB_OUTPUT": str(self.folder / "output"),
        }
        return await asyncio.create_subprocess_exec(
            "bash", str(FOLDER / "ask.sh"), env=environment, stdout=asyncio.subprocess.PIPE
        )

    async def asked(self) -> Question:
        async with asyncio.timeout(WITHIN):
            while not (found := (await self.desk.list_pending()).items):
                await asyncio.sleep(0.05)
        [question] = found
        return question

    async def ends(self, process: asyncio.subprocess.Process) -> tuple[int, dict[str, str]]:
        """The exit code, and the outputs of this step."""
        async with asyncio.timeout(WITHIN):
            await process.communicate()
        output = self.folder / "output"
        lines = [line.partition("=") for line in output.read_text(encoding="utf-8").splitlines()]
        output.unlink()
        assert process.returncode is not None
        return process.returncode, {name: value for name, _, value in lines}


@pytest.fixture
async def step(tmp_path: Path) -> AsyncIterator[Step]:
    url, clock_file = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "clock"
    clock_file.touch()
    clock = SharedClock(clock_file)
    async with open_backend(url, clock=clock) as ports:
        key = await Issuer(ports.directory).agent("default", "ci")
    server = start_server(url, clock_file, 0, poll_interval="0.1")
    assert server.stdout is not None
    try:
        port = (await asyncio.to_thread(server.stdout.readline)).strip()
        async with open_desk(url, clock=clock) as desk:
            yield Step(tmp_path, f"http://127.0.0.1:{port}", key, desk)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.mark.slow(
    "starts a server and two commands; the script seldom changes, and tests/cli/test_ask_commands.py has its command"
)
async def test_an_approved_action_goes_on_and_every_other_ending_does_not(step: Step) -> None:
    hostile = "version=1; touch owned $(touch owned) `touch owned`"
    process = await step.start(
        TOOL="release", ARGUMENTS=f"{hostile}\nenvironment=production\n", RECIPIENTS="ana"
    )
    question = await step.asked()
    assert isinstance(question.form, Approval)
    assert question.form.action.arguments == {
        "version": hostile.partition("=")[2],
        "environment": "production",
    }
    assert question.recipients == ("ana",)
    await step.desk.answer(question.id, "approve", by="ana")
    code, outputs = await step.ends(process)
    assert (code, outputs["status"]) == (0, "answered")
    assert json.loads(outputs["question"])["id"] == question.id
    # The same job runs again: the approval is used up.
    code, outputs = await step.ends(
        await step.start(TOOL="release", ARGUMENTS=f"{hostile}\nenvironment=production", RECIPIENTS="ana")
    )
    assert (code, outputs["status"]) == (1, "failed")
    assert not list(Path.cwd().glob("owned"))


@pytest.mark.slow("starts a command for each ending; tests/cli/test_ask_commands.py has its exit codes")
async def test_no_silence_and_later(step: Step) -> None:
    process = await step.start(PROMPT="--help")
    question = await step.asked()
    assert question.prompt == "--help"
    await step.desk.answer(question.id, "no", by="ana")
    assert (await step.ends(process))[0] == 8
    code, outputs = await step.ends(await step.start(TIMEOUT="0.2s", KEY="shop/8"))
    assert (code, outputs["status"]) == (7, "pending")
    again = await step.start(KEY="shop/8")
    await step.desk.answer((await step.asked()).id, "yes", by="ana")
    assert (await step.ends(again))[0] == 0
    declined = await step.start(KEY="shop/9", EXPIRES="1h")
    await step.desk.decline((await step.asked()).id, by="ana")
    code, outputs = await step.ends(declined)
    assert (code, outputs["status"]) == (3, "declined")
    step.url = "http://127.0.0.1:9"
    assert (await step.ends(await step.start(KEY="shop/10")))[1] == {"status": "failed", "question": ""}
