"""What an open page does by itself: it keeps up without jumping, comes back after a fault, and leads back after signing in."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Browser, Locator, Page, Route, ViewportSize, expect

from handraise import Confirm
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_link
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import PATIENCE, NewWindow, listens, outcome_of, violations

PHONE = ViewportSize(width=360, height=640)


async def top_of(row: Locator) -> float:
    box = await row.bounding_box()
    assert box is not None
    return box["y"]


def row_of(tab: Page, question_id: str) -> Locator:
    return tab.locator(f'[data-row="{question_id}"]')


async def mark(tab: Page) -> None:
    """Leave something in the page that a reload would take away."""
    await tab.evaluate("window.marked = true")


async def is_marked(tab: Page) -> bool:
    return bool(await tab.evaluate("window.marked === true"))


class TestComingBackAfterSigningIn:
    @pytest.mark.slow("test_login_redirect.py follows the same way without a browser")
    async def test_from_a_question_to_it_without_scripts(
        self, chromium: Browser, address: str, ctx: ServerContext, workspace: str, desk: LocalDesk
    ) -> None:
        question = await desk.post("Sure?", form=Confirm())
        await ctx.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        link = await issue_link(ctx, workspace, person="ann", purpose="sign-in", vouched_by=None)
        assert link is not None
        token = parse_qs(urlsplit(link.url).query)["token"][0]
        window = await chromium.new_context(base_url=address, java_script_enabled=False, viewport=PHONE)
        window.set_default_timeout(PATIENCE)
        tab = await window.new_page()
        await tab.goto(f"/questions/{question.id}")
        await expect(tab.get_by_text("the page that you were going to")).to_be_visible()
        # The link is opened from a message, in a tab of its own.
        other = await window.new_page()
        await other.goto(f"/sign-in/link?token={token}")
        await other.get_by_role("button", name="Sign in as Ann").click()
        await expect(other).to_have_url(f"{address}/questions/{question.id}")
        await other.get_by_role("button", name="Yes").click()
        await expect(other.get_by_role("heading", name="Answered by you")).to_be_visible()
        assert await outcome_of(desk, question.id) is True
        await window.close()

    @pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
    async def test_a_page_whose_session_ended_says_so_and_leads_to_sign_in(
        self, tab: Page, desk: LocalDesk, ctx: ServerContext, workspace: str, address: str
    ) -> None:
        question = await desk.post("Name it")
        await listens(tab, f"/questions/{question.id}")
        await tab.get_by_label("Your answer").fill("my thought")
        await ctx.directory.remove_person(workspace, "ann")
        await tab.evaluate("""() => {
            for (const state of ["hidden", "visible"]) {
                Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }
        }""")
        note = tab.get_by_role("status").filter(has_text="You are signed out.")
        await expect(note).to_be_visible()
        await expect(tab.get_by_label("Your answer")).to_have_value("my thought")
        await note.get_by_role("link", name="Sign in again").click()
        await expect(tab).to_have_url(f"{address}/sign-in")
        await expect(tab.get_by_text("the page that you were going to")).to_be_visible()


class TestList:
    @pytest.mark.slow("test_browser_live.py has that no row moves")
    async def test_new_ones_are_shown_in_place_and_no_row_moves_before(
        self, tab: Page, desk: LocalDesk, errors: list[str]
    ) -> None:
        first = await desk.post("the first", form=Confirm())
        await listens(tab, "/")
        await mark(tab)
        before = await top_of(row_of(tab, first.id))
        await desk.post("another")
        await expect(tab.get_by_text("1 new question.")).to_be_visible()
        assert await top_of(row_of(tab, first.id)) == before
        await tab.get_by_role("link", name="Show").click()
        await expect(tab.locator("[data-row]")).to_have_count(2)
        await expect(tab.get_by_text("2 questions")).to_be_visible()
        await expect(tab.get_by_text("1 new question.")).to_be_hidden()
        await expect(tab).to_have_title("(2) Waiting · Handraise")
        await expect(tab.locator(".row.fresh")).to_contain_text("another")
        await expect(tab.locator("[data-whisper]")).to_have_text("1 new question is in the list.")
        await desk.answer(first.id, True, by="bob")
        await expect(row_of(tab, first.id)).to_contain_text("answered by bob")
        await expect(tab).to_have_title("(1) Waiting · Handraise")
        await desk.post("a third")
        await expect(tab.get_by_text("1 new question.")).to_be_visible()
        assert await is_marked(tab)
        assert errors == []

    @pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
    async def test_a_new_question_is_told_of_if_it_comes_on_a_later_page(
        self, tab: Page, desk: LocalDesk, errors: list[str]
    ) -> None:
        for number in range(60):
            await desk.post(f"question {number}")
        await listens(tab, "/")
        await expect(tab.get_by_text("60 questions")).to_be_visible()
        await desk.post("one more")
        await expect(tab.get_by_text("1 new question, less urgent than these.")).to_be_visible()
        await expect(tab.get_by_text("61 questions")).to_be_visible()
        await expect(tab).to_have_title("(61) Waiting · Handraise")
        await tab.locator("[data-live]").get_by_role("link", name="Next page").click()
        await expect(tab.get_by_text("one more")).to_be_visible()
        assert errors == []

    @pytest.mark.slow(
        "test_browser_live.py has the list that is told of new questions; this is one more detail of it"
    )
    async def test_what_is_read_and_focused_stays_where_it_is(
        self, person: NewWindow, desk: LocalDesk
    ) -> None:
        asked = [await desk.post(f"question {number}") for number in range(12)]
        async with person("ann", viewport=PHONE) as window:
            tab = await window.new_page()
            await listens(tab, "/")
            row = row_of(tab, asked[8].id)
            await row.get_by_role("link", name="question").focus()
            await row.evaluate("(row) => row.scrollIntoView({ block: 'center' })")
            for number in range(3):
                await desk.post(f"urgent {number}", expires_in=600)
            await expect(tab.get_by_text("3 new questions.")).to_be_visible()
            await expect(tab.get_by_text("3 new questions.")).to_be_in_viewport()
            before = await top_of(row)
            await mark(tab)
            show = tab.get_by_role("link", name="Show", exact=True)
            await show.evaluate("(link) => link.click()")
            await expect(tab.locator("[data-row]")).to_have_count(15)
            assert abs(await top_of(row) - before) < 1
            await expect(row.get_by_role("link", name="question")).to_be_focused()
            assert await is_marked(tab)

    @pytest.mark.slow(
        "test_browser_live.py has the list that is told of new questions; this is one more detail of it"
    )
    async def test_who_shows_them_by_keyboard_goes_on_from_the_first_new_one(
        self, tab: Page, desk: LocalDesk
    ) -> None:
        await desk.post("old")
        await listens(tab, "/")
        await desk.post("fresh")
        await tab.get_by_role("link", name="Show", exact=True).press("Enter")
        await expect(tab.get_by_role("link", name="fresh")).to_be_focused()

    @pytest.mark.slow(
        "test_browser_live.py has the list that is told of new questions; this is one more detail of it"
    )
    async def test_an_empty_list_fills_by_itself(self, tab: Page, desk: LocalDesk) -> None:
        await listens(tab, "/")
        await expect(tab.get_by_role("heading", name="Nothing is waiting for you")).to_be_visible()
        question = await desk.post("the first")
        await expect(row_of(tab, question.id)).to_be_visible()
        await expect(tab).to_have_title("(1) Waiting · Handraise")

    @pytest.mark.slow(
        "test_browser_live.py has the list that is told of new questions; this is one more detail of it"
    )
    async def test_words_that_are_being_typed_into_the_search_stay(self, tab: Page, desk: LocalDesk) -> None:
        await desk.post("old")
        await listens(tab, "/")
        search = tab.locator("[data-search]")
        await search.press_sequentially("depl")
        await desk.post("fresh")
        await tab.get_by_role("link", name="Show", exact=True).evaluate("(link) => link.click()")
        await expect(tab.locator("[data-row]")).to_have_count(2)
        await expect(search).to_be_focused()
        await tab.keyboard.type("oy")
        await expect(search).to_have_value("deploy")

    @pytest.mark.slow(
        "test_browser_live.py has the list that is told of new questions; this is one more detail of it"
    )
    async def test_a_question_that_was_answered_before_anybody_looked_is_not_announced(
        self, tab: Page, desk: LocalDesk
    ) -> None:
        await desk.post("old")
        await listens(tab, "/")
        brief = await desk.post("brief")
        await expect(tab.get_by_text("1 new question.")).to_be_visible()
        await desk.answer(brief.id, "done", by="bob")
        await expect(tab.get_by_text("1 new question.")).to_be_hidden()
        await expect(tab).to_have_title("(1) Waiting · Handraise")


class TestWhatWasMissed:
    """Events that no page heard: between a page and its stream, and while there was no connection."""

    @pytest.mark.slow("the page of a question comes back in the gate by the same code")
    async def test_in_the_list_is_marked_when_it_is_connected_again(self, tab: Page, desk: LocalDesk) -> None:
        settled, waits = await desk.post("one"), await desk.post("two")
        await tab.route("**/v1/events", _refuse)
        await tab.goto("/")
        await desk.answer(settled.id, "done", by="bob")
        await expect(tab.get_by_text("Not connected. Trying again")).to_be_visible()
        await tab.unroute("**/v1/events")
        await expect(row_of(tab, settled.id)).to_contain_text("answered by bob", timeout=30_000)
        await expect(row_of(tab, waits.id)).not_to_have_class("settled")
        await expect(tab).to_have_title("(1) Waiting · Handraise")
        await expect(tab.get_by_text("Not connected")).to_be_hidden()

    @pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
    async def test_of_a_question_is_told_when_it_is_connected_again(self, tab: Page, desk: LocalDesk) -> None:
        question = await desk.post("one")
        await tab.route("**/v1/events", _refuse)
        await tab.goto(f"/questions/{question.id}")
        await tab.get_by_label("Your answer").fill("my thought")
        await desk.answer(question.id, "done", by="bob")
        await tab.unroute("**/v1/events")
        told = tab.get_by_text("This was answered meanwhile by bob. What you have written is kept.")
        await expect(told).to_be_visible(timeout=30_000)
        await expect(tab.get_by_label("Your answer")).to_have_value("my thought")
        await expect(tab.get_by_role("button", name="Send the answer")).to_be_disabled()

    @pytest.mark.slow("the page of a question comes back in the gate by the same code")
    async def test_a_question_that_nobody_looks_at_holds_no_connection(
        self, tab: Page, desk: LocalDesk
    ) -> None:
        question = await desk.post("one")
        await listens(tab, f"/questions/{question.id}")
        ended = tab.wait_for_event("requestfailed", lambda request: request.url.endswith("/v1/events"))
        await tab.evaluate("""() => {
            Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""")
        await ended
        await desk.answer(question.id, "done", by="bob")
        await tab.evaluate("""() => {
            Object.defineProperty(document, "visibilityState", { value: "visible", configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""")
        await expect(tab.get_by_text("This was answered meanwhile by bob.")).to_be_visible()


@pytest.mark.slow("test_browser_access.py runs axe on one page of every type in the gate")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_what_pages_say_by_themselves_passes_axe(
    person: NewWindow, desk: LocalDesk, theme: str
) -> None:
    async with person("ann", color_scheme=theme, bypass_csp=True) as window:
        tab = await window.new_page()
        question = await desk.post("one")
        await listens(tab, "/")
        await desk.post("two")
        await expect(tab.get_by_text("1 new question.")).to_be_visible()
        assert await violations(tab) == []
        await listens(tab, f"/questions/{question.id}")
        await tab.get_by_label("Your answer").fill("my thought")
        await desk.answer(question.id, "done", by="bob")
        await expect(tab.get_by_text("What you have written is kept.")).to_be_visible()
        assert await violations(tab) == []
        await tab.route("**/v1/events", _refuse)
        await tab.goto("/")
        await expect(tab.get_by_text("Not connected.")).to_be_visible()
        assert await violations(tab) == []


async def _refuse(route: Route) -> None:
    await route.fulfill(status=503)
