"""A real browser at a real server. A test module gets the fixtures with `from tests.server.inbox.chromium import *`.

One browser serves the whole session and each test has windows of its own: `chromium` is in `conftest.py` here. A module
elsewhere gets one with `from tests.server.inbox.own_chromium import *`. A browser belongs to one event loop, so such
modules share the session's, and `server` is opened there: that is what `pytestmark` and `loop_scope` are for.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]  # it has none
from fastapi import FastAPI
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect

from handraise import Answered, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.ports import Clock
from handraise.server import ServerContext, ServerSettings, open_server
from support.chromium import ARGUMENTS
from support.http_server import listening
from support.issuer import Issuer

__all__ = ["address", "ctx", "errors", "person", "pytestmark", "tab", "window"]

UNLIMITED: dict[str, Any] = {
    "rate_limit": "100000/second",
    "sign_in_limit": "100000/second",
    "check_recipients": False,
}
"""A test is quicker than any person."""
PATIENCE = 20_000
"""Milliseconds that a busy machine may take for anything that a person would wait for."""

NARROW: ViewportSize = {"width": 1_000, "height": 720}
"""One page after the other. From 1,100 pixels the list and a question are side by side: see test_browser_flow.py."""

NewWindow = Callable[..., AbstractAsyncContextManager[BrowserContext]]
"""A window of anybody: `person("bob", viewport={…}, java_script_enabled=False)`."""

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def ctx(store: str, settings: dict[str, Any], clock: Clock | None) -> AsyncIterator[ServerContext]:
    async with open_server(ServerSettings(url=store, **(UNLIMITED | settings)), clock=clock) as ctx:
        yield ctx


@pytest_asyncio.fixture(loop_scope="session")
async def address(app: FastAPI) -> AsyncIterator[str]:
    """Where a real server listens."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        async with listening(app, door):
            yield f"http://127.0.0.1:{door.getsockname()[1]}"


_STOPS_WITHIN_S = 10


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """A browser, for as long as this context lasts."""
    expect.set_options(timeout=PATIENCE)
    before = _children()
    playwright = await async_playwright().start()
    drivers = _children() - before
    try:
        yield await playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
    finally:
        # Now and then Chromium does not close, and its driver waits for it. Both end with the driver.
        stopping = asyncio.create_task(playwright.stop())
        done, _ = await asyncio.wait([stopping], timeout=_STOPS_WITHIN_S)
        if not done:
            for driver in drivers:
                os.kill(driver, signal.SIGKILL)
            await asyncio.wait([stopping], timeout=_STOPS_WITHIN_S)


def _children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


@pytest.fixture
def person(chromium: Browser, address: str, issuer: Issuer, workspace: str) -> NewWindow:
    """Opens windows of people who are signed in."""

    @asynccontextmanager
    async def open_window(
        name: str = "ann", *, groups: Sequence[str] = (), role: Role = Role.MEMBER, **options: Any
    ) -> AsyncIterator[BrowserContext]:
        token = await issuer.person(workspace, Responder(name, frozenset(groups)), role=role)
        context = await chromium.new_context(base_url=address, **({"viewport": NARROW} | options))
        await context.add_cookies([{"name": "handraise", "value": token, "url": address}])
        context.set_default_timeout(PATIENCE)
        try:
            yield context
        finally:
            await context.close()

    return open_window


@pytest_asyncio.fixture(loop_scope="session")
async def window(person: NewWindow) -> AsyncIterator[BrowserContext]:
    """The browser of ann, a member of the group ops."""
    async with person("ann", groups=["ops"]) as context:
        yield context


@pytest_asyncio.fixture(loop_scope="session")
async def tab(window: BrowserContext) -> Page:
    return await window.new_page()


@pytest_asyncio.fixture(loop_scope="session")
async def errors(tab: Page) -> list[str]:
    """What the browser complained about."""
    return complaints(tab)


def complaints(tab: Page) -> list[str]:
    """What the browser complains about from now on, as a list that grows."""
    found: list[str] = []
    tab.on("pageerror", lambda error: found.append(str(error)))
    tab.on("console", lambda message: found.append(message.text) if message.type == "error" else None)
    return found


def executable() -> str:
    """Debian's browser. A missing one is a failure."""
    found = shutil.which("chromium")
    if found is None:
        pytest.fail("These tests need Chromium: apt-get install chromium", pytrace=False)
    return found


async def listens(tab: Page, path: str) -> None:
    """Open a page and wait until it hears what happens."""
    async with tab.expect_response("**/v1/events"):
        await tab.goto(path)


async def takes_input(tab: Page) -> None:
    """Wait until a key or a click is meant for the question that is shown beside the list."""
    await expect(tab.locator("[data-pane] [data-question]:not([data-just-shown])")).to_be_visible()


async def decides_again(tab: Page) -> None:
    """Wait until a click in the same place as the last one is not taken for the second half of a double click."""
    await expect(tab.locator("html:not([data-just-came])")).to_be_visible()


async def outcome_of(desk: LocalDesk, question_id: str) -> Any:
    """The value that was answered, or whatever else the outcome is."""
    outcome = (await desk.get(question_id)).outcome
    return outcome.value if isinstance(outcome, Answered) else outcome


async def violations(tab: Page) -> list[str]:
    """What axe finds wrong with a page, folded parts opened: the rule, and where."""
    await tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    found = (await Axe().run(tab)).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['html'][:200]}" for each in found for node in each["nodes"]
    ]


async def fits(tab: Page) -> bool:
    """Whether nothing is beside the screen."""
    found: bool = await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return found
