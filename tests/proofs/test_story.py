"""One approval from beginning to end: Slack, the inbox in a browser, the terminal and the audit trail tell the same story.

An agent asks. A person asks back in Slack. The agent is killed and started again, and replies with a file. Another person is
brought in and sends it back. The agent asks again; the page shows what changed. It is approved, executed and reported as failed.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from handraise import Question
from handraise.server import create_app
from handraise.server.auth.authenticator import cookie_name
from handraise.server.auth.issuer import issue_key, issue_session
from support.command import handraise
from support.http_server import listening
from tests.channels.slack_peer import Posted
from tests.channels.slack_server import PEOPLE, Team, open_team
from tests.conftest import own_database
from tests.proofs.story_agent import INVOICE
from tests.server.inbox.chromium import PATIENCE
from tests.server.inbox.own_chromium import *  # noqa: F403 -- fixtures come by name

pytestmark = [
    pytest.mark.proof,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("takes 20 s; each part of the story has tests of its own in the gate"),
    pytest.mark.timeout(300),
]

AGENT = Path(__file__).with_name("story_agent.py")
WITHIN = 30.0
FAILED = "The bank is closed: nothing was paid."
WHY = "Only 30: the rest was paid back in May."


@pytest.fixture
def store() -> Iterator[str]:
    with own_database() as address:
        yield address


class Agent:
    """The agent's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self, pattern: str) -> str:
        """The next line, which must look like this; the part of it in brackets."""
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), WITHIN)).decode().strip()
        found = re.fullmatch(pattern, line)
        assert found is not None, f"expected {pattern!r}, got {line!r}"
        return found[1]


async def started(address: str, key: str) -> Agent:
    return Agent(
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(AGENT), address),
            env={**os.environ, "HANDRAISE_KEY": key},
            stdout=asyncio.subprocess.PIPE,
        )
    )


@pytest_asyncio.fixture(loop_scope="session")
async def place(store: str, tmp_path: Path) -> AsyncIterator[tuple[Team, str]]:
    """A team with Slack, and the address at which its server listens."""
    door = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{door.getsockname()[1]}"
    assert handraise("audit", "key", str(tmp_path / "audit.key")).returncode == 0
    settings: dict[str, Any] = {
        "public_url": address,
        "secret": "s" * 32,
        "audit_key": tmp_path / "audit.key",
    }
    async with open_team(url=store, **settings) as team, listening(create_app(team.ctx), door):
        yield team, address


@asynccontextmanager
async def window(chromium: Browser, team: Team, address: str, person: str) -> AsyncIterator[Page]:
    """A page of somebody who is signed in."""
    session = await issue_session(team.ctx, "default", person=person, how="test")
    assert session is not None
    context = await chromium.new_context(base_url=address)
    await context.add_cookies([{"name": cookie_name(team.ctx), "value": session.token, "url": address}])
    context.set_default_timeout(PATIENCE)
    yield await context.new_page()
    await context.close()


async def test_slack_inbox_terminal_and_audit_trail_tell_one_story(
    place: tuple[Team, str], store: str, chromium: Browser, tmp_path: Path
) -> None:
    team, address = place
    key = (await issue_key(team.ctx, "default", "refund-agent", by="test")).key
    agent, first, message = await is_asked_back_in_slack_while_the_agent_is_dead(team, address, key)
    async with window(chromium, team, address, "ann") as ann, window(chromium, team, address, "bob") as bob:
        await is_brought_in_and_sends_it_back(ann, bob, first)
        assert "Sent back by bob" in (await team.ended(message)).shown
        assert await agent.says("sent back: (.+)") == WHY
        second = await team.desk.get(await agent.says("asked (.+)"))
        assert (second.replaces, (await team.desk.get(first.id)).replaced_by) == (first.id, second.id)
        asked_again = await team.sent(second)
        await is_approved_after_reading_what_changed(ann, second)
        assert await agent.says("failed: (.+)") == "30 for customer 12"
        assert await agent.process.wait() == 0
        ended = await team.find(
            lambda each: team.name_of(each) == team.name_of(asked_again) and FAILED in each.shown
        )
        assert "Approved by ann" in ended.shown
        await ann.reload()
        await expect(ann.get_by_text(FAILED).first).to_be_visible()
    told = ["asked", "asked_back", "replied", "brought_in", "returned", "replaced"]
    assert [event.kind for event in await team.desk.history(first.id)] == told
    done = ["asked", "answered", "consumed", "reported"]
    assert [event.kind for event in await team.desk.history(second.id)] == done
    await asyncio.to_thread(terminal_and_audit_trail_say_so, first, second, store, tmp_path)


async def is_asked_back_in_slack_while_the_agent_is_dead(
    team: Team, address: str, key: str
) -> tuple[Agent, Question, Posted]:
    """The agent asks, and is killed; ann asks back; the agent comes back, and replies with a file."""
    agent = await started(address, key)
    question = await team.desk.get(await agent.says("asked (.+)"))
    message = await team.sent(question)
    agent.process.kill()
    await agent.process.wait()
    offer = await team.offer(PEOPLE["ann"], message, "For which customer?")
    assert "The agent was asked" in await team.choose(PEOPLE["ann"], offer, "asked_back")
    agent = await started(address, key)
    assert await agent.says("asked (.+)") == question.id
    replied = await team.later(question, message)
    assert "For customer 12. Here is the invoice." in replied.shown
    return agent, question, replied


async def is_brought_in_and_sends_it_back(ann: Page, bob: Page, question: Question) -> None:
    """Ann brings bob in, who reads the file."""
    await ann.goto(f"/questions/{question.id}")
    await expect(ann.get_by_text("Here is the invoice.").first).to_be_visible()
    await ann.get_by_text("Bring in or hand over").click()
    await ann.get_by_label("Who (a person").fill("bob")
    await ann.get_by_role("button", name="Bring in").click()
    await expect(ann.get_by_text("bob").first).to_be_visible()
    await bob.goto(f"/questions/{question.id}")
    async with bob.expect_download() as download:
        await bob.get_by_role("link", name="invoice-17.txt").click()
    assert (await (await download.value).path()).read_bytes() == INVOICE
    await bob.keyboard.press("b")
    await bob.get_by_label("What should change?").fill(WHY)
    await bob.get_by_role("button", name="Send back").click()
    await expect(bob.get_by_role("heading", name="Sent back by you")).to_be_visible()


async def is_approved_after_reading_what_changed(ann: Page, question: Question) -> None:
    await ann.goto(f"/questions/{question.id}")
    await expect(
        ann.get_by_role("heading", name="This replaces a question that bob sent back")
    ).to_be_visible()
    await expect(ann.get_by_role("row", name="Argument amount 300 is now 30")).to_be_visible()
    await ann.get_by_role("button", name="Approve", exact=True).click()
    await expect(ann.get_by_role("heading", name="Approved by you")).to_be_visible()


def terminal_and_audit_trail_say_so(first: Question, second: Question, store: str, folder: Path) -> None:
    story = " ".join(handraise("history", first.id, "--as", "ann", url=store).stdout.split())
    for line in (
        "Asked by refund-agent",
        "The agent was asked something by ann through Slack: For which customer?",
        "A reply by refund-agent: For customer 12. Here is the invoice.",
        "Others were brought in by ann through the inbox: bob",
        f"Sent back by bob through the inbox: {WHY}",
        "Another question was asked instead by refund-agent",
    ):
        assert line in story, story
    story = " ".join(handraise("history", second.id, "--as", "ann", url=store).stdout.split())
    assert f"Reported by refund-agent as failed: {FAILED}" in story, story
    trail, key = folder / "trail.jsonl", folder / "audit.key"
    exported = handraise("audit", "export", str(trail), url=store, audit_key=str(key))
    assert exported.returncode == 0, exported.stderr
    verified = handraise("audit", "verify", str(trail), "--key", f"{key}.pub")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    text = trail.read_text()
    for part in ("For which customer?", "brought_in", "returned", "replaced", "reported"):
        assert part in text
