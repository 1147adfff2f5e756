"""Long questions in a real browser: code, differences, the decision in sight, paper, and the filters of what is settled."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Locator, Page, expect

from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- its fixtures
from tests.server.inbox.chromium import NewWindow, complaints, violations
from tests.server.inbox.readable_scene import ended_questions, replacing_question, risky_approval

PICTURES = os.environ.get("HANDRAISE_PICTURES_TO")
WIDTHS = (390, 820, 1440)
NO_SIDEWAYS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC).replace(hour=9, minute=0) - timedelta(days=2))


@pytest.mark.only_proof_of("a long approval can be read and decided on every width, and printed")
async def test_a_long_approval_is_readable_and_its_decision_stays_in_sight(
    person: NewWindow, desk: LocalDesk
) -> None:
    risky, replacing = await risky_approval(desk), await replacing_question(desk)
    async with person("ann", java_script_enabled=False, viewport={"width": 390, "height": 800}) as window:
        tab = await window.new_page()
        errors = complaints(tab)
        await tab.goto(f"/questions/{risky.id}")
        # The decision is in sight before anything is scrolled, and covers nothing that has the focus.
        approve = tab.get_by_role("button", name="Approve", exact=True)
        await expect(approve).to_be_in_viewport()
        agree = tab.get_by_role("button", name="Vote the same")
        await agree.focus()
        focused, bar = await agree.bounding_box(), await tab.locator(".actions").bounding_box()
        assert focused is not None
        assert bar is not None
        assert focused["y"] + focused["height"] <= bar["y"] or focused["y"] >= bar["y"] + bar["height"]
        # At high risk, nothing of what is asked is folded.
        assert await tab.locator(".box details:not([open]), .action details:not([open])").count() == 0
        await expect(tab.locator("pre.code[data-language=sql] .hl-keyword").first).to_have_text("UPDATE")
        await expect(tab.locator("pre.code[data-language=python] .hl-string").first).to_be_visible()
        # Words that changed are marked in a vote with edits: one after the other on a phone, side by side on a desk.
        old, new = tab.locator(".side .diff .old").first, tab.locator(".side .diff .new").first
        assert await old.locator("del").all_inner_texts() == ["2025"]
        assert await new.locator("ins").all_inner_texts() == ["2024"]
        assert not await same_line(old, new)
        await tab.set_viewport_size({"width": 1440, "height": 900})
        assert await same_line(old, new)
        for path in (f"/questions/{risky.id}", f"/questions/{replacing.id}"):
            await tab.goto(path)
            for width in WIDTHS:
                await tab.set_viewport_size({"width": width, "height": 900})
                assert await tab.evaluate(NO_SIDEWAYS), (path, width)
        await expect(tab).to_have_title("Send this instead? · deploy-bot · Handraise")
        # On paper: no navigation, no buttons, everything unfolded, and the digest.
        await tab.emulate_media(media="print")
        await expect(tab.locator(".bar")).to_be_hidden()
        await expect(tab.locator(".actions")).to_be_hidden()
        await expect(tab.locator(".exact pre")).to_be_visible()
        await expect(tab.locator("[data-print]")).to_contain_text(replacing.form.digest)  # type: ignore[union-attr]
        await expect(tab.locator("[data-print]")).to_contain_text(replacing.id)
        assert errors == []


@pytest.mark.only_proof_of(
    "settled questions are filtered in a browser without scripts, and unknown pages are pages"
)
async def test_what_is_settled_is_filtered_by_day_outcome_and_person(
    person: NewWindow, desk: LocalDesk, clock: ManualClock
) -> None:
    ended = await ended_questions(desk, clock)
    async with person("ann", java_script_enabled=False, viewport={"width": 390, "height": 800}) as window:
        tab = await window.new_page()
        await tab.goto("/settled")
        await expect(tab.locator("[data-settled]")).to_have_count(4)
        await expect(row(tab, ended["executed"].id)).to_contain_text(
            "with changes: payments.transfer to: ACME Ltd, amount: 200"
        )
        await expect(row(tab, ended["waiting"].id)).to_contain_text("Not executed yet")
        await tab.get_by_text("Filters").click()
        await tab.get_by_label("How it ended").select_option("Approved")
        await tab.get_by_role("button", name="Show").click()
        await expect(tab.locator("[data-settled]")).to_have_count(2)
        await tab.get_by_label("Settled or voted by").select_option("bob")
        await tab.get_by_role("button", name="Show").click()
        await expect(tab.locator("[data-settled]")).to_have_count(1)
        await tab.locator("[data-settled] .row-text a").first.click()
        await tab.locator("[data-back]").click()
        await expect(tab.get_by_role("link", name="by bob remove this filter")).to_be_visible()
        day = (clock.now() - timedelta(days=1)).date().isoformat()
        await tab.goto(f"/settled?since={day}&until={day}")
        await expect(tab.locator("[data-settled]")).to_have_count(1)
        await expect(row(tab, ended["denied"].id)).to_be_visible()
        assert await tab.evaluate(NO_SIDEWAYS)
        await tab.goto("/nowhere")
        await expect(tab.get_by_role("heading", name="There is no such page here")).to_be_visible()


@pytest.mark.slow("the other tests here look at the same pages once; axe takes a second for each")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_readable_pages_pass_axe(
    person: NewWindow, desk: LocalDesk, clock: ManualClock, theme: Literal["light", "dark"]
) -> None:
    await ended_questions(desk, clock)
    risky, replacing = await risky_approval(desk), await replacing_question(desk)
    paths = {
        "risky": f"/questions/{risky.id}",
        "replacing": f"/questions/{replacing.id}",
        "settled": "/settled?all=1&outcome=approved&since=2020-01-01",
        "missing": "/nowhere",
    }
    async with person("ann", role=Role.ADMIN, color_scheme=theme, bypass_csp=True) as window:
        tab = await window.new_page()
        for name, path in paths.items():
            await tab.goto(path)
            assert await violations(tab) == [], path
            for width in WIDTHS:
                await tab.set_viewport_size({"width": width, "height": 900})
                assert await tab.evaluate(NO_SIDEWAYS), (path, width)
                if PICTURES:
                    await tab.screenshot(
                        path=str(Path(PICTURES) / f"{name}-{width}-{theme}.png"), full_page=True
                    )
            if PICTURES and name == "risky":
                await tab.set_viewport_size({"width": 390, "height": 800})
                await tab.screenshot(path=str(Path(PICTURES) / f"{name}-top-{theme}.png"))


def row(tab: Page, question_id: str) -> Locator:
    return tab.locator(f"[data-settled='{question_id}']")


async def same_line(one: Locator, other: Locator) -> bool:
    first, second = await one.bounding_box(), await other.bounding_box()
    assert first is not None
    assert second is not None
    return abs(first["y"] - second["y"]) < 2
