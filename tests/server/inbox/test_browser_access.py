"""Every page is for everybody: axe finds nothing in either theme, the keyboard leads everywhere and out again."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from fastapi import FastAPI
from playwright.async_api import Page, expect

from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import ManualClock
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, violations
from tests.server.inbox.scene import ONE_OF_EACH, View, routes_of, some_of, views_of, views_of_nothing
from tests.tiers import NIGHTLY


@pytest.fixture
def settings() -> dict[str, Any]:
    return {
        "secret": "s" * 40,
        "oidc_issuer": "https://id.example.com",
        "oidc_client_id": "handraise",
    }


@pytest.fixture(autouse=True)
def _any_attempt_to_sign_in_is_known(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page after the provider's is shown only to a browser that began there."""
    monkeypatch.setattr(app.state.oidc, "attempt", lambda *_: None)


@pytest.mark.only_proof_of("every type of page can be read by everybody; nightly every page in both themes")
async def test_axe_finds_nothing_wrong_with_any_page_in_either_theme(
    person: NewWindow, app: FastAPI, ctx: ServerContext, desk: LocalDesk, clock: ManualClock
) -> None:
    async with person("ann", groups=["ops"], role=Role.ADMIN) as window:
        tab = await window.new_page()
        found = await wrong_with(tab, some_of(await views_of_nothing(), ONE_OF_EACH))
        views = some_of(await views_of(ctx, desk, clock), ONE_OF_EACH)
        assert {view.route for view in views} == routes_of(app), "a page that nobody looks at"
        found |= await wrong_with(tab, views)
        assert found == {}


async def wrong_with(tab: Page, views: list[View]) -> dict[str, list[str]]:
    found = {}
    for view in views:
        await view.show(tab)
        for theme in THEMES:
            await tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
            assert await tab.evaluate(
                "(theme) => matchMedia(`(prefers-color-scheme: ${theme})`).matches", theme
            )
            if faults := await violations(tab):
                found[f"{view.name}, {theme}"] = faults
    return found


THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark") if NIGHTLY else ("light",)
ON_A_PHONE = {"the queue", "what is settled", "a form to answer", "an approval to answer", "oneself"}
BY_KEYBOARD = {"the queue", "an approval to answer"}
"""What the gate looks at; nightly it is every page."""
PHONE = {"width": 320, "height": 640}
SMALL = """() => {
    // A link in a sentence may be as high as its line, and what is ticked is its whole label.
    const targets = "a[href], button, input:not([type=hidden]), select, textarea, summary";
    return [...document.querySelectorAll(targets)].filter((each) => {
        if (!each.checkVisibility() || each.closest(".skip, p:not(.trail):not(.row-text), li p, dd, .prose")) return false;
        const { width, height } = (each.closest("label.tick") ?? each).getBoundingClientRect();
        return width < 24 || height < 24;
    }).map((each) => each.outerHTML.slice(0, 200));
}"""
WIDE = """() => [...document.querySelectorAll("body *")].filter((each) => {
    const { left, right, width } = each.getBoundingClientRect();
    return width > 0 && (right > innerWidth + 1 || left < -1) && !each.closest(".unseen, .skip") && each.checkVisibility();
}).map((each) => each.outerHTML.slice(0, 200))"""


@pytest.mark.only_proof_of("pages fit on a phone; nightly all of them")
async def test_everything_fits_on_a_phone_and_can_be_hit_with_a_finger(
    person: NewWindow, ctx: ServerContext, desk: LocalDesk, clock: ManualClock
) -> None:
    async with person("ann", role=Role.ADMIN, viewport=PHONE, has_touch=True, is_mobile=True) as window:
        tab = await window.new_page()
        found = {}
        views = [*await views_of_nothing(), *await views_of(ctx, desk, clock)]
        for view in some_of(views, ON_A_PHONE):
            await view.show(tab)
            await tab.evaluate(
                "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
            )
            width = await tab.evaluate("document.documentElement.scrollWidth")
            faults = [*await tab.evaluate(SMALL), *await tab.evaluate(WIDE)]
            if faults or width > 320:
                found[view.name] = [f"{width} px", *faults]
        assert found == {}


BARE = """() => {
    const LOOKS = ["outlineStyle", "outlineWidth", "outlineColor", "boxShadow", "borderColor", "backgroundColor", "top"];
    window.look = (each) => {
        const parts = [];
        for (let up = each, steps = 0; up && steps < 4; up = up.parentElement, steps += 1) {
            const style = getComputedStyle(up);
            parts.push(LOOKS.map((name) => style[name]).join(" "));
        }
        return parts.join("|");
    };
    window.bare = new Map([...document.querySelectorAll("body *")].map((each) => [each, window.look(each)]));
    // Colours that fade in are not there yet when one looks.
    for (const each of document.querySelectorAll("*")) each.style.transition = "none";
}"""
STOP = """() => {
    const each = document.activeElement;
    if (!each || each === document.body) return null;
    const isRadio = each.type === "radio";
    const { width, height } = each.getBoundingClientRect();
    return {
        name: isRadio ? `radio ${each.name}` : `${[...document.querySelectorAll("*")].indexOf(each)} ${each.outerHTML.slice(0, 120)}`,
        // The button in a date's field is the browser's, which shows its focus by itself.
        shown: window.look(each) !== window.bare.get(each) || (each.matches("[type^=date]") && !each.matches(":focus-visible")),
        inView: each.getBoundingClientRect().bottom > 0 && each.getBoundingClientRect().top < innerHeight,
        placed: width > 0 && height > 0,
    };
}"""
REACHABLE = """() => {
    const dialog = document.querySelector("dialog[open]");
    const all = (dialog ?? document).querySelectorAll(
        "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']",
    );
    const names = [...all].filter((each) => each.checkVisibility() && !each.disabled).map((each) =>
        each.type === "radio" ? `radio ${each.name}` : `${[...document.querySelectorAll("*")].indexOf(each)} ${each.outerHTML.slice(0, 120)}`);
    return [...new Set(names)];
}"""


async def walk(tab: Page, key: str, most: int) -> tuple[list[str], list[str]]:
    """Where one comes by pressing a key until one is where one began, and what is wrong on the way."""
    stops: list[str] = []
    faults: list[str] = []
    was_elsewhere = False
    for _ in range(most):
        await tab.keyboard.press(key)
        stop = await tab.evaluate(STOP)
        if stop is None or (stops and stop["name"] != stops[0]):
            was_elsewhere = was_elsewhere or bool(stops)
        elif was_elsewhere:
            return stops, faults
        if stop is not None:
            faults += [f"{each}: {stop['name']}" for each in ("shown", "inView", "placed") if not stop[each]]
            stops.append(stop["name"])
    return stops, [*faults, f"{key} does not lead around: {stops[-3:]}"]


@pytest.mark.only_proof_of("the keyboard leads everywhere and its focus is seen; nightly on all pages")
async def test_the_keyboard_leads_to_everything_and_out_again_and_the_focus_is_seen(
    person: NewWindow, ctx: ServerContext, desk: LocalDesk, clock: ManualClock
) -> None:
    async with person("ann", role=Role.ADMIN) as window:
        tab = await window.new_page()
        found = {}
        views = [*await views_of_nothing(), *await views_of(ctx, desk, clock)]
        for view in some_of(views, BY_KEYBOARD):
            if view.alike:
                continue
            await view.show(tab)
            await tab.evaluate("document.activeElement?.blur()")
            await tab.evaluate(BARE)
            reachable = await tab.evaluate(REACHABLE)
            if not reachable:
                continue
            # The fields of a date are stops of their own.
            there, faults = await walk(tab, "Tab", 3 * len(reachable) + 30)
            missed = [f"not reached: {each}" for each in set(reachable) - set(there)]
            back, more = await walk(tab, "Shift+Tab", 3 * len(reachable) + 30)
            lost = [f"not reached on the way back: {each}" for each in set(reachable) - set(back)]
            if faults or missed or more or lost:
                found[view.name] = [*faults, *missed, *more, *lost][:4]
        assert found == {}


async def test_escape_leaves_the_dialog_and_the_focus_is_where_it_was(tab: Page, desk: LocalDesk) -> None:
    await desk.post("first")
    await tab.goto("/")
    await tab.keyboard.press("j")
    link = tab.get_by_role("link", name="first")
    await expect(link).to_be_focused()
    await tab.keyboard.press("?")
    await expect(tab.get_by_role("dialog")).to_be_visible()
    assert await tab.evaluate("document.activeElement.closest('dialog') !== null")
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_role("dialog")).to_be_hidden()
    await expect(link).to_be_focused()
