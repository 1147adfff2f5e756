"""Passkeys in a real browser, with Chromium's virtual authenticator: add one, approve with it, and what happens without."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from playwright.async_api import CDPSession, Page, expect

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from support.http_server import listening
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import outcome_of, violations
from tests.server.test_passkeys import RULE


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where the server will listen: its address must be known before it starts, because passkeys belong to it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


@pytest.fixture
def settings(listener: socket.socket) -> dict[str, Any]:
    return {"public_url": f"http://localhost:{listener.getsockname()[1]}"}


@pytest_asyncio.fixture(loop_scope="session")  # type: ignore[no-redef]  # instead of theirs
async def address(app: FastAPI, listener: socket.socket) -> AsyncIterator[str]:
    async with listening(app, listener):
        yield f"http://localhost:{listener.getsockname()[1]}"


@pytest_asyncio.fixture(loop_scope="session")
async def authenticator(tab: Page) -> CDPSession:
    """A phone that recognises its owner and always agrees."""
    devtools = await tab.context.new_cdp_session(tab)
    await devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    added = await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    devtools.authenticator = added["authenticatorId"]  # type: ignore[attr-defined]
    return devtools


@pytest_asyncio.fixture(loop_scope="session")
async def cleaner(ctx: ServerContext, workspace: str) -> LocalDesk:
    await ctx.policies.put(workspace, {"rules": [RULE]}, by="boss", expected=0)
    return ctx.desk.scoped(workspace, asker="cleaner")


@pytest.mark.usefixtures("authenticator")
@pytest.mark.only_proof_of("a browser adds, uses and removes a passkey")
async def test_add_a_passkey_approve_with_it_and_remove_it(
    ctx: ServerContext,
    workspace: str,
    cleaner: LocalDesk,
    tab: Page,
    errors: list[str],
) -> None:
    form = Approval.of("delete", {"table": "logs"}, editable=["table"], risk="high")
    first, edited = [await cleaner.post("May I?", form=form) for _ in range(2)]
    page = f"/questions/{first.id}"
    await tab.goto(page)
    await expect(tab.get_by_role("button", name="Approve")).to_be_disabled()
    await tab.get_by_role("link", name="Add a passkey").click()
    await tab.locator("#passkey-name").fill("Ann's phone")
    await tab.get_by_role("button", name="Add a passkey").click()
    await expect(tab.get_by_text("Ann's phone")).to_be_visible()

    await tab.goto(page)
    await tab.get_by_role("button", name="Approve with your passkey").click()
    await expect(tab.get_by_text("signed with a passkey")).to_be_visible()
    assert (await outcome_of(cleaner, first.id))["decision"] == "approve"

    await tab.goto(f"/questions/{edited.id}")
    await tab.get_by_text("Change something before you approve").click()
    await tab.get_by_label("table").fill("invoices")
    await tab.get_by_role("button", name="Approve with your passkey").click()
    await tab.get_by_role("button", name="Approve with changes and your passkey").click()
    await expect(tab.get_by_text("signed with a passkey")).to_be_visible()
    assert (await outcome_of(cleaner, edited.id))["arguments"] == {"table": "invoices"}

    await tab.goto("/me")
    await tab.get_by_role("button", name="Remove the passkey Ann's phone").click()
    await expect(tab.get_by_text("not used yet").or_(tab.get_by_text("last used"))).to_have_count(0)
    assert not await ctx.directory.passkeys(workspace, "ann")
    assert [each for each in errors if "404" not in each] == [], "404: this server has no push key"


async def test_a_passkey_that_is_not_used_sends_nothing_and_a_denial_needs_none(
    cleaner: LocalDesk, tab: Page, authenticator: CDPSession
) -> None:
    question = await cleaner.post("May I?", form=Approval.of("delete", {"table": "logs"}), undo_for=30)
    await tab.goto("/me")
    await tab.get_by_role("button", name="Add a passkey").click()
    await expect(tab.get_by_text("not used yet")).to_be_visible()
    place = {"authenticatorId": authenticator.authenticator}  # type: ignore[attr-defined]
    await authenticator.send("WebAuthn.setUserVerified", place | {"isUserVerified": False})
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_role("button", name="Approve with your passkey").click()
    await expect(tab.get_by_text("Nothing was sent")).to_be_visible()
    assert await outcome_of(cleaner, question.id) is None

    await authenticator.send("WebAuthn.setUserVerified", place | {"isUserVerified": True})
    await tab.get_by_role("button", name="Approve with your passkey").click()
    await expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    await tab.keyboard.press("Escape")
    await tab.get_by_role("button", name="Deny").click()
    await tab.get_by_role("button", name="Send now").press("Enter")
    await expect(tab.get_by_text("Denied").first).to_be_visible()
    assert (await outcome_of(cleaner, question.id))["decision"] == "deny"


@pytest.mark.slow("test_browser_access.py runs axe on one page of every type in the gate")
async def test_the_pages_pass_axe_with_and_without_a_passkey(cleaner: LocalDesk, person: Any) -> None:
    question = await cleaner.post("May I?", form=Approval.of("delete", {"table": "logs"}))
    async with person("ann", bypass_csp=True) as window:
        tab = await window.new_page()
        for path in ("/me", f"/questions/{question.id}"):
            await tab.goto(path)
            assert await violations(tab) == []
            await tab.set_viewport_size({"width": 320, "height": 800})
            assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
