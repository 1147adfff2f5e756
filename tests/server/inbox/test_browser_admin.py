"""The administration in a real browser: readable for all, in both themes, on a phone, and without scripts."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import pytest
from playwright.async_api import expect

from handraise import Approval, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.web.admin.admin_views import NAVIGATION
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import NewWindow, complaints, fits, violations

PATHS = (
    "/admin",
    "/admin/people/ann",
    "/admin/groups/ops",
    *(each.href for _, places in NAVIGATION for each in places if each.href.startswith("/admin")),
)


@pytest.fixture
def clock() -> None:
    return None


@pytest.fixture
def settings() -> dict[str, object]:
    return {"webhooks": True}


async def fill(ctx: ServerContext, desk: LocalDesk) -> None:
    """Some of everything, with names that are too long for any screen."""
    where, directory = desk.workspace, ctx.directory
    for name in ("ann", "b" * 120):
        await directory.put_person(where, name, name=name * 2, email=None, role=Role.MEMBER, by="boss")
    await directory.put_group(where, "ops", ["ann"], by="ann")
    await directory.put_group(where, "g" * 120, ["ann"], by="ann")
    await directory.open_session(
        where, "s", digest="s", person="ann", how="oidc", lasts=timedelta(days=1), vouched_by="b" * 120
    )
    await directory.add_passkey(
        where, "k", person="ann", name="n" * 80, domain="localhost", public_key="", sign_count=0
    )
    for key in ("k-1", "k-2"):
        await directory.add_key(where, key, digest=key, agent="m" * 150, created_by="ann")
    await directory.revoke_key(where, "k-2", by="ann")
    asked = await desk.post("Pay?", form=Approval.of("p" * 150, {"n": 1}, scopes=["once", "always"]))
    await desk.answer(asked.id, {"decision": "approve", "scope": "always"}, by=Responder("ann"))
    await ctx.policies.stop(where, tool="t" * 100, why="w" * 300, by="ann")


@pytest.mark.only_proof_of("every page of the administration can be read by everybody, and on a phone")
async def test_every_page_passes_axe_and_fits_on_a_phone(
    person: NewWindow, ctx: ServerContext, desk: LocalDesk
) -> None:
    await fill(ctx, desk)
    async with person(
        "boss", role=Role.ADMIN, bypass_csp=True, viewport={"width": 390, "height": 800}
    ) as window:
        tab = await window.new_page()
        errors = complaints(tab)
        for path in PATHS:
            await tab.goto(path)
            assert await violations(tab) == [], path
            assert await fits(tab), path
        assert errors == []


@pytest.mark.slow("the gate has each page at one size; this is every size in both themes")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_at_every_size_in_both_themes(
    person: NewWindow, ctx: ServerContext, desk: LocalDesk, theme: Literal["light", "dark"]
) -> None:
    async with person("boss", role=Role.ADMIN, bypass_csp=True, color_scheme=theme) as window:
        tab = await window.new_page()
        for full in (False, True):
            if full:
                await fill(ctx, desk)
            for path in PATHS:
                if not full and path.count("/") > 2:
                    continue
                await tab.goto(path)
                for width in (390, 820, 1440):
                    await tab.set_viewport_size({"width": width, "height": 900})
                    assert await violations(tab) == [], (path, width)
                    assert await fits(tab), (path, width)


@pytest.mark.slow(
    "the forms are tested over HTTP in the gate; this is a person at a keyboard without scripts"
)
async def test_somebody_is_added_with_the_keyboard_and_without_scripts(person: NewWindow) -> None:
    async with person("boss", role=Role.ADMIN, java_script_enabled=False) as window:
        tab = await window.new_page()
        await tab.goto("/admin")
        await tab.get_by_role("link", name="People", exact=True).first.press("Enter")
        await expect(tab.get_by_role("heading", level=1)).to_have_text("People")
        await tab.get_by_label("Agents ask them as").focus()
        await tab.keyboard.type("ann")
        await tab.keyboard.press("Enter")
        await expect(tab.get_by_role("status")).to_have_text("Added.")
        await expect(tab.get_by_role("heading", level=1)).to_have_text("ann")
        await tab.get_by_role("button", name="Make a sign-in link").press("Enter")
        await expect(tab.locator(".secret")).to_contain_text("/sign-in/link?token=")
