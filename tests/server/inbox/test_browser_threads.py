"""Two people and an agent in a conversation: an open page says what is new, and never approves what it does not show."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, complaints, decides_again, listens
from tests.server.inbox.test_browser_undo import hide

REFUND = Approval.of("refund", {"amount": 300})


@pytest.mark.only_proof_of("an open page announces a message, and what it sends covers what it shows")
async def test_an_open_page_tells_of_a_reply_and_approves_only_what_it_shows(
    person: NewWindow, desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND, replies="program")
    async with person("ann") as of_ann, person("bob") as of_bob:
        ann, bob = await of_ann.new_page(), await of_bob.new_page()
        errors = complaints(ann)
        await listens(ann, f"/questions/{question.id}")
        await listens(bob, f"/questions/{question.id}")
        await ann.get_by_label("Reason").fill("they are right")
        await bob.get_by_text("Ask the agent, or write a note").click()
        await bob.get_by_label("Your question or note").fill("Which customer?")
        await bob.get_by_role("button", name="Ask the agent").click()
        await expect(bob.get_by_text("Waiting for the agent's reply")).to_be_visible()
        await expect(bob.get_by_label("Your question or note")).to_have_value("")
        live = ann.locator("[data-live]")
        await expect(live).to_contain_text("There is a new message by bob. Read it before you decide.")
        await desk.reply(question.id, "Customer 12.")
        await expect(live).to_contain_text("The agent has replied. Read it before you decide.")
        assert await ann.locator("[data-answer] [name=seen]").input_value() == "0", "it covers what it shows"
        await ann.get_by_role("button", name="Approve").click()
        await expect(ann.get_by_role("alert")).to_contain_text("The conversation has moved on.")
        assert (await desk.get(question.id)).outcome is None
        await expect(ann.locator(".message.new")).to_have_count(2)
        await expect(ann.get_by_text("Customer 12.")).to_be_visible()
        await expect(ann.get_by_label("Reason")).to_have_value("they are right")
        await decides_again(ann)
        await ann.get_by_role("button", name="Approve").click()
        await expect(ann.get_by_role("heading", name="Approved by you")).to_be_visible()
        assert (await desk.get(question.id)).decision
        assert [each for each in errors if "409" not in each] == []


async def test_what_is_held_back_is_not_approved_if_a_message_comes(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Refund?", form=REFUND, replies="program", undo_for=60)
    await listens(tab, f"/questions/{question.id}")
    await tab.get_by_role("button", name="Approve").click()
    await expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    await desk.note(question.id, "wait", by="bob")
    await expect(tab.locator("[data-live]")).to_contain_text("Yours was not sent.")
    await expect(tab.get_by_role("button", name="Undo")).to_have_count(0)
    await tab.get_by_role("button", name="Deny").click()
    await desk.note(question.id, "wait again", by="bob")
    await expect(tab.locator("[data-live]")).not_to_contain_text("Yours was not sent.")
    await tab.get_by_role("button", name="Send now").press("Enter")
    await expect(tab.get_by_role("heading", name="Denied by you")).to_be_visible()


@pytest.mark.slow(
    "the test before has what is held back and refused; test_browser_undo.py sends as the page is left"
)
async def test_what_is_sent_as_the_page_is_hidden_says_so_if_it_was_refused(
    tab: Page, desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND, undo_for=60)
    await tab.route("**/v1/events", lambda route: route.abort())  # the page does not hear of the note
    await tab.goto(f"/questions/{question.id}")
    await desk.note(question.id, "wait", by="bob")
    await tab.get_by_role("button", name="Approve").click()
    await expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    await hide(tab)
    refused = tab.get_by_role("region", name="Answers given offline")
    await expect(refused).to_contain_text(
        "Your answer was not recorded. There are messages that you had not seen."
    )
    await expect(tab.get_by_role("button", name="Approve")).to_be_enabled()
    assert (await desk.get(question.id)).outcome is None
    await refused.get_by_role("link", name="Refund?").click()
    await expect(tab.locator(".message")).to_contain_text("wait")


@pytest.mark.slow("test_browser_live.py has drafts in the gate; a message is one more")
async def test_a_message_that_was_typed_is_there_again_until_it_is_sent(tab: Page, desk: LocalDesk) -> None:
    question = await desk.post("Refund?", form=REFUND, replies="program")
    await desk.note(question.id, "wait", by="bob")
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_label("Your question or note").fill("Which customer?\nAnd why?")
    await tab.goto("/")
    await tab.goto(f"/questions/{question.id}")
    await expect(tab.get_by_label("Your question or note")).to_have_value("Which customer?\nAnd why?")
    await tab.get_by_role("button", name="Add a note").dblclick()
    await expect(tab.locator(".message")).to_have_count(2)
    await expect(tab.get_by_label("Your question or note")).to_have_value("")
    assert [each.text for each in await desk.thread(question.id)] == ["wait", "Which customer?\nAnd why?"]
    await tab.wait_for_load_state()
    assert await tab.evaluate("Object.keys(localStorage).length") == 0


@pytest.mark.slow("test_browser_live.py keeps in the gate what was typed when somebody else answers")
async def test_a_message_that_was_begun_is_shown_when_somebody_else_decides(
    tab: Page, desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND, replies="program")
    await listens(tab, f"/questions/{question.id}")
    await tab.get_by_text("Ask the agent, or write a note").click()
    await tab.get_by_label("Your question or note").fill("Which cust")
    await desk.answer(question.id, "deny", by="bob")
    await tab.get_by_role("link", name="Show how it ended").click()
    await expect(tab.locator("[data-live]")).to_contain_text("Which cust")
    await tab.wait_for_load_state()
    assert await tab.evaluate("Object.keys(localStorage).length") == 0


@pytest.mark.slow(
    "test_queue.py has the groups of the list; test_browser_live.py has rows that wait behind a line"
)
async def test_a_row_moves_to_the_group_that_waits_for_the_agent_when_the_person_wants_it(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    question = await desk.post("Refund?", form=REFUND, replies="program")
    await desk.post("Another?", form=REFUND)
    await listens(tab, "/")
    row = tab.locator(f'[data-row="{question.id}"]')
    await desk.ask_back(question.id, "Which customer?", by="bob")
    await expect(row).to_contain_text("the agent was asked something")
    await expect(tab).to_have_title("(1) Waiting · Handraise")
    await expect(tab.locator(".agents-turn")).to_have_count(0)
    await tab.get_by_role("link", name="Show").click()
    await expect(tab.locator(".agents-turn [data-row]")).to_have_count(1)
    await desk.reply(question.id, "Customer 12.")
    await expect(row).to_contain_text("the agent replied")
    await expect(tab).to_have_title("(2) Waiting · Handraise")
    assert errors == []
