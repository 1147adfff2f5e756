"""From a fresh environment to an agent that goes on with an answer from the browser, within a minute.

`pytest -m proof -s tests/proofs/test_demo.py` prints how long each step takes.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import PATIENCE, takes_input
from tests.server.inbox.own_chromium import *  # noqa: F403 -- same

ROOT = Path(__file__).resolve().parent.parent.parent
MINUTE = 60.0


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command as `pip install .[server]` leaves it in an environment that has nothing else."""
    folder = tmp_path_factory.mktemp("fresh")
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", "constraints.txt", ".[server]"], cwd=ROOT, check=True)
    print(f"\ninstalled in {time.monotonic() - began:.1f} s")
    return folder / "bin" / "handraise"


class Demo:
    """A running demo, and what it has printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said = ""

    async def says(self, pattern: str) -> str:
        """Wait until it has printed this; what matched."""
        assert self._process.stdout is not None
        async with asyncio.timeout(MINUTE):
            while not (found := re.search(pattern, self.said, re.MULTILINE)):
                line = await self._process.stdout.readline()
                assert line, f"it ended, and never said {pattern}:\n{self.said}"
                self.said += line.decode()
        return found[0]

    async def stop(self) -> int:
        """Press Ctrl+C; the code it ends with."""
        self._process.send_signal(signal.SIGINT)
        rest, _ = await asyncio.wait_for(self._process.communicate(), MINUTE)
        self.said += rest.decode()
        return self._process.returncode or 0


@asynccontextmanager
async def running(command: Path, folder: Path) -> AsyncIterator[Demo]:
    """`handraise demo` as somebody runs it who has just installed it: there is nothing that configures it."""
    clean = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    process = await asyncio.create_subprocess_exec(
        *(str(command), "demo"),
        env=clean | {"HOME": str(folder), "TMPDIR": str(folder)},
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Demo(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.proof
@pytest.mark.slow("makes an environment with pip, and measures a minute")
@pytest.mark.timeout(900)
async def test_a_question_is_answered_in_the_browser_and_the_agent_goes_on_within_a_minute(
    command: Path, chromium: Browser, tmp_path: Path
) -> None:
    began = time.monotonic()
    async with running(command, tmp_path) as demo:
        link = await demo.says(r"^http://\S+/sign-in/link\?token=\S+$")
        print(f"the link after {time.monotonic() - began:.1f} s")
        window = await chromium.new_context()
        window.set_default_timeout(PATIENCE)
        tab = await window.new_page()
        await tab.goto(link)
        await tab.get_by_role("button", name="Sign in as").click()
        await answer_three_questions(tab, demo, began)
        done = await demo.says("Done, exactly as you approved it: .*")
        assert "strategy='rolling'" in done
        assert "percent=10" in done
        await demo.says("That was it")
        took = time.monotonic() - began
        print(f"all of it after {took:.1f} s")
        assert took < MINUTE
        await window.close()
        assert await demo.stop() == 0
        assert "the demo's store is gone" in demo.said
        assert "Traceback" not in demo.said
    assert not list(tmp_path.glob("handraise-demo-*"))


async def answer_three_questions(tab: Page, demo: Demo, began: float) -> None:
    """As a person does who comes in by the link: the list says that there is a new one."""
    await demo.says("asks: Which strategy")
    await tab.get_by_role("link", name="Which strategy").click()
    await tab.get_by_role("radio", name="Rolling").check()
    await tab.get_by_role("button", name="Send the answer").click()
    await demo.says("asks: Before I begin")
    print(f"the agent has gone on after {time.monotonic() - began:.1f} s")
    await tab.get_by_role("link", name="Show", exact=True).click()
    await tab.get_by_role("link", name="Before I begin").click()
    await tab.get_by_label("Who is on call?").fill("Ana")
    await tab.get_by_role("radio", name="No").check()
    await tab.get_by_role("button", name="Send the answer").click()
    await demo.says("asks: Everything is ready")
    await tab.get_by_role("link", name="Show", exact=True).click()
    await tab.get_by_role("link", name="Everything is ready").click()
    await takes_input(tab)
    await tab.get_by_role("button", name="Approve", exact=True).click()
