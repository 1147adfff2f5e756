"""An answer that does not fit, and one that was changed: what stands next to what was written."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from handraise import Approval, Confirm, Field, Form, MultiChoice, Open
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.chromium import *  # noqa: F403 -- fixtures come by name
from tests.server.inbox.chromium import NewWindow, outcome_of, violations

DETAILS = Form(
    fields=(
        Field(name="who", form=Open(type="email"), title="Who is told"),
        Field(name="retries", form=Open(type="integer", minimum=0), title="Retries"),
        Field(name="sure", form=Confirm(), title="Sure"),
        Field(name="parts", form=MultiChoice.of("web", "api", "docs", at_most=2), title="Parts"),
    )
)


async def reason_for(field: Locator) -> str:
    """What somebody who cannot see the page is told with a field, one text after the other."""
    found: str = await field.evaluate(
        """(field) => (field.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean)
            .map((id) => document.getElementById(id).textContent.trim()).join(" ")"""
    )
    return " ".join(found.split())


@pytest.mark.only_proof_of("who sends what does not fit is told at the field and loses nothing")
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            "with scripts", marks=pytest.mark.slow("the reasons are the server's, with scripts or not")
        ),
        "without scripts",
    ],
)
async def test_the_reason_stands_at_the_field_and_nothing_typed_is_lost(
    person: NewWindow, desk: LocalDesk, way: str
) -> None:
    question = await desk.post("Tell me", form=DETAILS)
    async with person("ann", java_script_enabled=way == "with scripts") as window:
        tab = await window.new_page()
        await tab.goto(f"/questions/{question.id}")
        who, retries = tab.get_by_label("Who is told"), tab.get_by_label("Retries")
        await who.fill("nobody in particular")
        await retries.fill("-5")
        await tab.get_by_role("radio", name="Yes").check()
        for part in ("web", "api", "docs"):
            await tab.get_by_role("checkbox", name=part).check()
        await tab.get_by_role("button", name="Send the answer").click()
        await expect(tab.get_by_role("alert")).to_contain_text("That does not fit yet.")
        assert "is not an e-mail address" in await reason_for(who)
        assert "must be at least 0, is -5" in await reason_for(retries)
        assert "at most 2" in await reason_for(tab.get_by_role("group", name="Parts"))
        for field, value in ((who, "nobody in particular"), (retries, "-5")):
            await expect(field).to_have_attribute("aria-invalid", "true")
            await expect(field).to_have_value(value)
            # The reason is above the field and near it, for whoever sees the page.
            reason = tab.locator(f"#{await field.get_attribute('id')}-problem")
            await expect(reason).to_contain_text("Does not fit:")
            problem = await reason.bounding_box()
            place = await field.bounding_box()
            assert problem is not None
            assert place is not None
            assert 0 <= place["y"] - (problem["y"] + problem["height"]) < 60
        await expect(tab.get_by_role("radio", name="Yes")).to_be_checked()
        stands = await desk.get(question.id)
        assert (stands.outcome, stands.attempts) == (None, 1)
        await who.fill("ops@example.com")
        await retries.fill("5")
        await tab.get_by_role("checkbox", name="docs").uncheck()
        await tab.get_by_role("button", name="Send the answer").click()
        await expect(tab.get_by_role("heading", name="Answered by you")).to_be_visible()
        expected = {"who": "ops@example.com", "retries": 5, "sure": True, "parts": ["web", "api"]}
        assert await outcome_of(desk, question.id) == expected


@pytest.mark.slow("test_form_controls.py and the test before have the reasons; this has where the focus goes")
async def test_somebody_who_cannot_see_comes_to_the_first_field_that_does_not_fit(
    tab: Page, desk: LocalDesk
) -> None:
    question = await desk.post("Tell me", form=DETAILS)
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_label("Who is told").fill("ops@example.com")
    await tab.get_by_label("Retries").fill("many")
    await tab.get_by_role("radio", name="Yes").check()
    await tab.get_by_role("checkbox", name="web").check()
    await tab.get_by_role("button", name="Send the answer").click()
    await expect(tab.get_by_role("alert")).to_be_visible()
    await expect(tab.get_by_label("Retries")).to_be_focused()
    assert await violations(tab) == []


@pytest.mark.slow("test_browser_kinds.py edits and approves; test_question_page.py has the differences")
async def test_an_edit_is_shown_as_a_difference_before_it_is_approved(
    tab: Page, desk: LocalDesk, errors: list[str]
) -> None:
    arguments = {"to": "ACME", "amount": 250, "note": "rent\nfor May\nthank you"}
    form = Approval.of("payments.transfer", arguments, editable=["amount", "note"])
    question = await desk.post("Pay?", form=form)
    await tab.goto(f"/questions/{question.id}")
    await tab.get_by_text("Change something before you approve").click()
    await tab.get_by_label("amount").fill("a lot")
    await tab.get_by_role("button", name="Approve", exact=True).click()
    await expect(tab.get_by_role("alert")).to_be_visible()
    assert "expected a whole number" in await reason_for(tab.get_by_label("amount"))
    await tab.get_by_label("amount").fill("200")
    await tab.get_by_label("note", exact=True).fill("rent\nfor June\nthank you")
    await tab.get_by_role("button", name="Approve", exact=True).click()
    await expect(tab.get_by_role("heading", name="Approve with your changes?")).to_be_visible()
    changes = tab.get_by_role("region", name="What you changed")
    assert [each.split()[-1] for each in await changes.get_by_role("deletion").all_inner_texts()] == [
        "250",
        "May",
    ]
    assert [each.split()[-1] for each in await changes.get_by_role("insertion").all_inner_texts()] == [
        "200",
        "June",
    ]
    assert (await desk.get(question.id)).outcome is None
    await tab.get_by_role("button", name="Go back").click()
    await expect(tab.get_by_label("amount")).to_have_value("200")
    await tab.get_by_role("button", name="Approve", exact=True).click()
    await tab.get_by_role("button", name="Approve with changes").click()
    await expect(tab.get_by_text("Approved with changed arguments").first).to_be_visible()
    decision = (await desk.get(question.id)).decision
    assert decision is not None
    assert decision.action.arguments == arguments | {"amount": 200, "note": "rent\nfor June\nthank you"}
    # A refused answer is a page with the status 422, which browsers mention; nothing else may be.
    assert [each for each in errors if "422" not in each] == []
