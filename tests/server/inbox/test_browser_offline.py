"""Answers that are given offline: kept in the browser, sent with what was seen, and refused kindly if too late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from handraise import Approval, Choice, Confirm, Open
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from support.issuer import Issuer
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NARROW, NewWindow, listens, outcome_of, takes_input

KEPT = "Kept. It will be sent when you are back online."
WIDE = {"width": 1_440, "height": 900}


def told(tab: Page) -> Locator:
    return tab.get_by_role("region", name="Answers given offline")


async def settled(desk: LocalDesk, question_id: str) -> Any:
    """The outcome, as soon as there is one."""
    await asyncio.wait_for(desk.wait(question_id), 20)
    return await outcome_of(desk, question_id)


async def answered_offline(tab: Page, question_id: str, text: str) -> None:
    """Ann answers on the question's page, and her answer is kept."""
    await listens(tab, f"/questions/{question_id}")
    await tab.context.set_offline(True)
    await tab.get_by_label("Your answer").fill(text)
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(told(tab)).to_contain_text(KEPT)
    await expect(told(tab)).to_contain_text(text)


@pytest.mark.only_proof_of("an answer given offline is sent once, with what was seen")
async def test_is_kept_and_sent_with_what_was_seen(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "my thought")
    assert await tab.evaluate("document.querySelector('[data-answer]').inert")
    shown = await tab.locator("[data-answer] [name=shown]").input_value()
    await tab.context.set_offline(False)
    assert await settled(desk, question.id) == "my thought"
    await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
    events = await desk.history(question.id)
    assert [each.kind.value for each in events] == ["asked", "answered"]
    assert events[-1].data["shown_digest"] == shown
    assert await tab.evaluate("Object.keys(localStorage)") == []


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_is_refused_kindly_if_it_is_too_late(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "my thought")
    await desk.answer(question.id, "the first one", by="bob")
    await tab.context.set_offline(False)
    await expect(told(tab)).to_contain_text("Your answer was not recorded.")
    await tab.goto("/settled")
    for said in (
        "It had ended before your answer arrived.",
        "Answered by bob",
        "the first one",
        "my thought",
    ):
        await expect(told(tab)).to_contain_text(said)
    await told(tab).get_by_role("button", name="Close").click()
    await expect(told(tab)).to_be_hidden()
    assert await outcome_of(desk, question.id) == "the first one"


@pytest.mark.only_proof_of("what is kept offline is neither sent nor shown for another person")
async def test_is_neither_sent_nor_shown_for_another_person(
    tab: Page, desk: LocalDesk, issuer: Issuer, workspace: str, address: str
) -> None:
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "of ann")
    ann = next(each["value"] for each in await tab.context.cookies() if each["name"] == "handraise")
    bob = await issuer.person(workspace, "bob", role=Role.MEMBER)
    await tab.context.add_cookies([{"name": "handraise", "value": bob, "url": address}])
    await tab.context.set_offline(False)
    # The page of ann is still open, and bob is signed in.
    await expect(told(tab)).to_contain_text("Kept, but not sent: sign in again.")
    await listens(tab, "/")
    await expect(told(tab)).to_have_count(0)
    assert await outcome_of(desk, question.id) is None
    await tab.context.add_cookies([{"name": "handraise", "value": ann, "url": address}])
    await tab.goto("/")
    await expect(told(tab)).to_contain_text("Your answer was sent.")
    assert await outcome_of(desk, question.id) == "of ann"


async def test_high_risk_is_not_kept_and_what_is_kept_can_be_discarded(tab: Page, desk: LocalDesk) -> None:
    risky = await desk.post("Pay?", form=Approval.of("pay", {"amount": 3}, risk="high"))
    await listens(tab, f"/questions/{risky.id}")
    await tab.context.set_offline(True)
    await tab.get_by_role("button", name="Deny").click()
    await expect(tab.locator("[data-live]")).to_contain_text("This one cannot be kept for later")
    await expect(told(tab)).to_have_count(0)
    await tab.context.set_offline(False)
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "rather not")
    await told(tab).get_by_role("button", name="Discard").click()
    await expect(told(tab)).to_be_hidden()
    assert not await tab.evaluate("document.querySelector('[data-answer]').inert")
    await tab.context.set_offline(False)
    await tab.goto("/")
    await expect(tab.locator("[data-row]")).to_have_count(2)
    assert await outcome_of(desk, question.id) is None


@pytest.mark.slow("takes seconds in Chromium, and no right depends on it")
async def test_beside_the_list_and_in_its_rows(person: NewWindow, desk: LocalDesk) -> None:
    first = await desk.post("One?", form=Choice.of("a", "b"))
    second = await desk.post("Two?", form=Confirm())
    async with person("ann", viewport=WIDE) as window:
        narrow, tab = await window.new_page(), await window.new_page()
        await narrow.set_viewport_size(NARROW)
        await listens(narrow, "/")
        await listens(tab, "/")
        await takes_input(tab)
        await window.set_offline(True)
        await tab.locator("[data-pane]").get_by_text("b", exact=True).click()
        await tab.locator("[data-pane]").get_by_role("button", name="Send the answer").click()
        await expect(told(tab)).to_contain_text(KEPT)
        await expect(tab.locator(f'[data-row="{first.id}"]')).to_contain_text("kept, not sent yet")
        await narrow.locator(f'[data-row="{second.id}"]').get_by_role("button", name="No").click()
        await expect(told(tab).get_by_role("button", name="Discard")).to_have_count(2)
        # What another tab keeps cannot be answered with a key here.
        await takes_input(tab)
        await tab.keyboard.press("y")
        await expect(tab.get_by_role("group", name="Your last answer")).to_be_hidden()
        await window.set_offline(False)
        assert await settled(desk, first.id) == "b"
        assert await settled(desk, second.id) is False
        for id_ in (first.id, second.id):
            assert [each.kind.value for each in await desk.history(id_)] == ["asked", "answered"]
        await expect(told(tab).get_by_text(KEPT)).to_have_count(0)


@pytest.mark.slow("test_is_kept_and_sent_with_what_was_seen covers the usual way")
async def test_stays_kept_if_something_else_answers_for_the_server(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "my thought")

    async def welcome(route: Route) -> None:
        if route.request.method == "POST":
            await route.fulfill(status=200, body="<p>Welcome to our hotel</p>", content_type="text/html")
        else:
            await route.continue_()

    await tab.route(f"**/questions/{question.id}*", welcome)
    async with tab.expect_response(lambda one: one.request.method == "POST"):
        await tab.context.set_offline(False)
    await tab.goto("/")
    await expect(told(tab)).to_contain_text(KEPT)
    assert await outcome_of(desk, question.id) is None
    await tab.unroute(f"**/questions/{question.id}*")
    await tab.goto("/")
    assert await settled(desk, question.id) == "my thought"


@pytest.mark.slow("discarding is tested above; this is about the moment of sending")
async def test_what_is_being_sent_cannot_be_discarded_but_the_others_can(tab: Page, desk: LocalDesk) -> None:
    first, second = [await desk.post(f"Number {n}?", form=Confirm()) for n in range(2)]
    await listens(tab, "/")
    await tab.context.set_offline(True)
    for each in (first, second):
        await tab.locator(f'[data-row="{each.id}"]').get_by_role("button", name="No").click()
    await expect(told(tab).get_by_role("button", name="Discard")).to_have_count(2)
    sending, goes_on = asyncio.Event(), asyncio.Event()

    async def slowly(route: Route) -> None:
        if route.request.method == "POST":
            sending.set()
            await goes_on.wait()
        await route.continue_()

    await tab.route(f"**/questions/{first.id}*", slowly)
    await tab.context.set_offline(False)
    await asyncio.wait_for(sending.wait(), 20)
    await told(tab).get_by_role("button", name="Discard").nth(1).click()
    await expect(told(tab).get_by_role("button", name="Discard")).to_have_count(1)
    await told(tab).get_by_role("button", name="Discard").click()
    await expect(told(tab).get_by_role("button", name="Discard")).to_have_count(1)
    goes_on.set()
    assert await settled(desk, first.id) is False
    await expect(told(tab)).to_contain_text("Your answer was sent.")
    assert await outcome_of(desk, second.id) is None


async def test_nobody_signs_out_offline_while_answers_are_kept(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Name it", form=Open())
    await answered_offline(tab, question.id, "my thought")
    await tab.get_by_role("button", name="Sign out").click()
    await expect(tab.locator("[data-live]")).to_contain_text("You cannot sign out while you are offline")
    await tab.context.set_offline(False)
    assert await settled(desk, question.id) == "my thought"
