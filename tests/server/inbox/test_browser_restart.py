"""The server is stopped and started again under an open page, which goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from handraise import Answered, Choice, open_desk
from support.command import Serving, serving
from support.free_port import free_port
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import PATIENCE

BACK = 30_000
"""Milliseconds within which a browser has come back: it tries again every few seconds."""


async def started(stack: ExitStack, url: str, folder: Path, port: str) -> Serving:
    """`handraise serve` at this port; the page in the browser goes on while it starts."""
    return await asyncio.to_thread(stack.enter_context, serving(url, folder, "--port", port))


async def stopped(server: Serving) -> None:
    server.send(signal.SIGTERM)
    assert await asyncio.to_thread(server.wait) == 0


async def sign_in(tab: Page, server: Serving) -> None:
    assert server.link is not None
    await tab.goto(server.link)
    await tab.get_by_role("button", name="Sign in as").click()
    await expect(tab.get_by_role("heading", name="Waiting for you", exact=True)).to_be_visible()


@pytest.mark.slow(
    "starts a server twice; test_browser_behaviours.py has a page that comes back, test_process_stop.py a stop"
)
async def test_an_open_page_tells_what_was_asked_meanwhile_and_answers_as_before(
    chromium: Browser, tmp_path: Path
) -> None:
    url, port = f"sqlite:///{tmp_path / 'questions.db'}", str(free_port())
    with ExitStack() as stack:
        server = await started(stack, url, tmp_path, port)
        window = await chromium.new_context()
        try:
            window.set_default_timeout(PATIENCE)
            queue, page, other = [await window.new_page() for _ in range(3)]
            await sign_in(queue, server)
            async with open_desk(url, asker="deploy-bot") as desk:
                before = await desk.post("Asked before", choices=["Canary", "Rolling"])
                await queue.goto(f"{server.address}/")
                await page.goto(f"{server.address}/questions/{before.id}")
                await page.get_by_role("radio", name="Rolling").check()
                away = await desk.post("Answered while it was away", form=Choice.of("a", "b"))
                await other.goto(f"{server.address}/questions/{away.id}")
                await other.get_by_role("radio", name="b").check()
                await stopped(server)
                await other.get_by_role("button", name="Send the answer").click()
                await expect(other.locator("[data-offline]")).to_contain_text("Kept. It will be sent")
                meanwhile = await desk.post("Asked while it was away", form=Choice.of("a", "b"))
                server = await started(stack, url, tmp_path, port)
                # Any page of this browser may have sent it.
                await expect(other.locator("[data-offline] .kept-answer")).to_have_count(0, timeout=BACK)
                sent = await asyncio.wait_for(desk.wait(away.id), 20)
                assert isinstance(sent, Answered)
                assert (sent.value, sent.by) == ("b", "admin")
                await expect(queue.get_by_text("1 new question.")).to_be_visible(timeout=BACK)
                await expect(queue).to_have_title("(2) Waiting · Handraise")
                after = await desk.post("Asked afterwards")
                await expect(queue.get_by_text("2 new questions.")).to_be_visible(timeout=BACK)
                await expect(page.get_by_role("radio", name="Rolling")).to_be_checked()
                await page.get_by_role("button", name="Send the answer").click()
                await expect(page.get_by_role("heading", name="Answered by you")).to_be_visible()
                outcome = (await desk.get(before.id)).outcome
                assert isinstance(outcome, Answered)
                assert (outcome.value, outcome.by) == ("Rolling", "admin")
                await queue.get_by_role("link", name="Show", exact=True).click()
                for question in (meanwhile, after):
                    await expect(queue.get_by_role("link", name=question.prompt)).to_be_visible()
        finally:
            await window.close()
