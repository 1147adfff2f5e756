"""The queue, what is settled, and the insights in a real browser: readable for all, on a phone, and without scripts."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from playwright.async_api import Page, expect

from handraise import Approval, Choice, Confirm, InvalidAnswer
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import NewWindow, complaints, violations
from tests.tiers import NIGHTLY

PATHS = (
    "/",
    "/?q=release&agent=deploy-bot&to=*",
    "/?q=nothing+like+that",
    "/settled",
    "/settled?all=1&q=release",
    "/settled?q=nothing+like+that",
    "/settled?all=1&ended_by=people&took=60-3600&tool=release&risk=medium&hour=9&asked_hour=9&late=1",
    "/insights",
    "/insights?span=day",
    "/insights?span=month",
    "/insights?agent=mail-bot&tool=release&risk=medium",
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC) - timedelta(days=3))


async def fill(ctx: ServerContext, workspace: str, clock: ManualClock) -> None:
    """Some of everything, with names that are too long for any screen."""
    for n, asker in enumerate(("deploy-bot", "m" * 150, "mail-bot")):
        desk = ctx.desk.scoped(workspace, asker=asker)
        for kind in (Confirm(), Approval.of("release", risk="high"), Choice.of("a", "b")):
            await desk.post(f"A release of {kind.kind}", form=kind, conversation="c" * 180, expires_in=10**6)
        for by in ("ann", "b" * 150):
            asked = await desk.post("May I release?", form=Approval.of("release"))
            clock.advance(timedelta(minutes=7 + n))
            await desk.answer(
                asked.id,
                {"decision": "approve", "reason": "w" * 300},
                by=by,
                provenance=Provenance(channel="slack"),
            )
        exhausted = await desk.post("Yes?", form=Confirm(), max_attempts=1)
        with suppress(InvalidAnswer):
            await desk.answer(exhausted.id, "perhaps", by="ann")
        await desk.post("Too late?", expires_in=60)
        clock.advance(timedelta(hours=5))
        await desk.run_due()


@pytest.mark.slow("test_browser_access.py runs axe on one page of every type in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_pass_axe_and_never_scroll_sideways(
    person: NewWindow, ctx: ServerContext, workspace: str, clock: ManualClock, theme: Literal["light", "dark"]
) -> None:
    async with person("ann", role=Role.ADMIN, color_scheme=theme, bypass_csp=True) as window:
        tab = await window.new_page()
        for empty in ("/", "/settled", "/insights"):
            await tab.goto(empty)
            assert await violations(tab) == []
        await fill(ctx, workspace, clock)
        for path in PATHS:
            await tab.goto(path)
            assert await violations(tab) == [], path
            for width in (320, 768, 1280):
                await tab.set_viewport_size({"width": width, "height": 800})
                assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)


async def test_keep_to_the_policy_with_nothing_inline(
    person: NewWindow, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    await fill(ctx, workspace, clock)
    async with person("ann", role=Role.ADMIN) as window:
        tab = await window.new_page()
        errors = complaints(tab)
        for path in ("/", "/settled", "/insights") if not NIGHTLY else PATHS:
            await tab.goto(path)
            assert await tab.locator("main [style], main script, main style").count() == 0
        assert await bar_width(tab) > 20
        assert errors == []


async def bar_width(tab: Page) -> float:
    box = await tab.locator(".chart rect.main").first.bounding_box()
    assert box is not None
    return box["width"]


@pytest.mark.only_proof_of("the list can be narrowed in a browser without scripts")
async def test_filter_and_search_without_scripts(
    person: NewWindow, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    await fill(ctx, workspace, clock)
    async with person("ann", java_script_enabled=False, viewport={"width": 320, "height": 640}) as window:
        tab = await window.new_page()
        await tab.goto("/")
        await tab.get_by_text("Filters").click()
        await tab.get_by_label("Asked by").select_option("mail-bot")
        await tab.get_by_role("button", name="Show").click()
        await expect(tab.locator("[data-row]")).to_have_count(3)
        await tab.get_by_role("searchbox").fill("confirm")
        await tab.get_by_role("searchbox").press("Enter")
        await expect(tab.locator("[data-row]")).to_have_count(1)
        await tab.get_by_role("link", name=re.compile("with confirm.*remove this filter")).click()
        await expect(tab.locator("[data-row]")).to_have_count(3)
        await tab.get_by_role("link", name="Settled", exact=True).click()
        await tab.get_by_role("searchbox").fill("may release")
        await tab.get_by_role("button", name="Search").click()
        await expect(tab.locator("[data-settled]")).to_have_count(6)
        await tab.locator("[data-settled] a").first.click()
        await expect(tab.get_by_role("heading", level=1)).to_contain_text("mail-bot")


@pytest.mark.slow("one key; test_browser_keys.py has the others")
async def test_the_key_of_the_search_goes_to_its_box(tab: Page, desk: LocalDesk) -> None:
    await desk.post("hello", form=Confirm())
    await tab.goto("/")
    await tab.keyboard.press("/")
    await expect(tab.get_by_role("searchbox")).to_be_focused()
    await tab.keyboard.type("a/b")
    await expect(tab.get_by_role("searchbox")).to_have_value("a/b")
