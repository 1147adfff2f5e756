"""The way through a list without scripts: the next question, what was just done, answers in the list, several together."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

import httpx2
import pytest

from handraise import Answered, Approval, Choice, Confirm
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, open_page, send


def rows(page: Page) -> list[str]:
    return [attrs["data-row"] or "" for _, attrs in page.tags if "data-row" in attrs]


async def link_to(client: httpx2.AsyncClient, question_id: str, path: str = "/") -> str:
    """The link of a row."""
    shown = await open_page(client, path)
    [found] = re.findall(rf'<a href="(/questions/{question_id}[^"]*)" id', shown.html)
    return unescape(found)


async def value_of(desk: LocalDesk, question_id: str) -> object:
    outcome = (await desk.get(question_id)).outcome
    return outcome.value if isinstance(outcome, Answered) else outcome


async def test_an_answer_leads_to_the_next_of_the_same_list_with_its_filters_and_place(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    first, second, third = [await desk.post(f"number {n}", form=Confirm()) for n in range(3)]
    await ctx.desk.scoped(workspace, asker="mail-bot").post("between", form=Confirm())
    path = "/?agent=deploy-bot"
    shown = await open_page(ann, await link_to(ann, first.id, path))
    assert "1 of 3" in shown.words
    sent = await send(ann, shown.sheet(), ("v", "yes"))
    assert sent.headers["location"].startswith(f"/questions/{second.id}?")
    shown = await open_page(ann, sent.headers["location"])
    assert "Answered" in shown.words
    assert "Yes number 0" in shown.agents_text
    assert "1 of 2" in shown.words
    assert 'href="/?agent=deploy-bot#q-' in shown.html
    sent = await send(ann, shown.sheet("data-decline"))
    assert sent.headers["location"].startswith(f"/questions/{third.id}?")
    shown = await open_page(ann, sent.headers["location"])
    assert "Declined" in shown.words
    sent = await send(ann, shown.sheet(), ("v", "no"))
    assert sent.headers["location"] == f"/?{urlencode({'agent': 'deploy-bot', 'done': third.id})}"
    end = await open_page(ann, sent.headers["location"])
    assert "Answered" in end.words
    assert [await value_of(desk, each.id) for each in (first, third)] == [True, False]


async def test_a_link_from_elsewhere_stays_at_its_question(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    one = await desk.post("one", form=Confirm())
    await desk.post("two", form=Confirm())
    shown = await open_page(ann, f"/questions/{one.id}")
    sent = await send(ann, shown.sheet(), ("v", "yes"))
    assert sent.headers["location"] == f"/questions/{one.id}"


async def test_an_approval_can_be_taken_back_from_the_next_page_until_it_is_used(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    pay = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}))
    await desk.post("Next?", form=Confirm())
    shown = await open_page(ann, await link_to(ann, pay.id))
    sent = await send(ann, shown.sheet(), ("decision", "approve"))
    after = await open_page(ann, sent.headers["location"])
    assert "Approved" in after.words
    [undo] = [each for each in after.sheets if each.action.startswith(f"/questions/{pay.id}")]
    await send(ann, undo)
    assert (await desk.get(pay.id)).taken_back_at is not None


async def test_what_was_done_is_told_only_to_the_person_who_did_it(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    theirs = await desk.post("secret of bob", recipients=["bob"], form=Confirm())
    shared = await desk.post("for both", form=Confirm())
    await desk.answer(theirs.id, "yes", by="bob")
    await desk.answer(shared.id, "yes", by="bob")
    for question in (theirs, shared):
        shown = await open_page(ann, f"/?done={question.id}")
        assert not [each for _, each in shown.tags if "data-done" in each]
    assert "secret of bob" not in (await ann.get(f"/?done={theirs.id}")).text


async def test_a_script_gets_what_is_recorded_and_a_refusal_is_a_page(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Go?", form=Confirm())
    sheet = (await open_page(ann, f"/questions/{question.id}")).sheet()
    headers = ORIGIN | FORM | {"accept": "application/json"}
    unfit = await ann.post(sheet.action, content="v=perhaps", headers=headers)
    assert (unfit.status_code, unfit.headers["content-type"]) == (422, "text/html; charset=utf-8")
    taken = await ann.post(sheet.action, content=sheet.body(("v", "yes")), headers=headers)
    assert (taken.json()["done"]["text"], taken.json()["done"]["answer"]) == ("Answered", "Yes")
    ann.cookies.clear()
    gone = await ann.post(sheet.action, content=sheet.body(("v", "yes")), headers=headers)
    assert (gone.status_code, gone.headers["location"]) == (303, "/sign-in")


class TestARow:
    async def test_answers_with_what_its_person_saw(self, ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
        confirm = await desk.post("Go?", form=Confirm())
        choice = await desk.post("Which?", form=Choice.of("a", "b"))
        low = await desk.post("Refund A-7?", form=Approval.of("refund", {"order": "A-7"}, risk="low"))
        for question, button, value in (
            (confirm, ("v", "no"), False),
            (choice, ("v", "1"), "b"),
            (low, ("decision", "approve"), "approve"),
        ):
            on_page = (await open_page(ann, f"/questions/{question.id}")).sheet()
            shown = await open_page(ann, "/")
            [sheet] = [
                each
                for each in shown.sheets
                if each.method == "post" and each.action.startswith(f"/questions/{question.id}?")
            ]
            assert sheet.sent()["shown"] == on_page.sent()["shown"]
            sent = await send(ann, sheet, button)
            assert sent.headers["location"].startswith(f"/?done={question.id}")
            found = await value_of(desk, question.id)
            assert (found["decision"] if isinstance(found, dict) else found) == value
            outcome = (await desk.get(question.id)).outcome
            assert isinstance(outcome, Answered)
            assert outcome.channel == "web"

    @pytest.mark.parametrize(
        ("prompt", "options"),
        [
            ("Drop?", {"form": Approval.of("drop", {"t": 1}, risk="high")}),
            ("Pay?", {"form": Approval.of("pay", {"amount": 1})}),
            ("Refund?", {"form": Approval.of("refund", {"note": "x" * 80}, risk="low")}),
            ("Go?", {"form": Confirm(), "context": {"more": 1}}),
            ("Go?\n\nThere is a second line.", {"form": Confirm()}),
            ("Which?", {"form": Choice.of(*"abcde")}),
            ("Which?", {"form": Choice.of("a", "b", allow_other=True)}),
            ("Not mine", {"form": Confirm(), "recipients": ["bob"]}),
        ],
    )
    async def test_has_no_button_if_it_does_not_show_everything_or_the_risk_is_not_low(
        self, boss: httpx2.AsyncClient, desk: LocalDesk, prompt: str, options: dict[str, object]
    ) -> None:
        await desk.post(prompt, **options)  # type: ignore[arg-type] # different ones
        shown = await open_page(boss, "/?all=1")
        assert len(rows(shown)) == 1
        assert not [each for _, each in shown.tags if "data-quick-row" in each]


class TestTogether:
    @pytest.mark.parametrize(
        "odd", ["id=%00", "like=%00", "like=none", "id=none&id=none", "from=//evil.example/"]
    )
    async def test_whatever_stands_in_its_address_is_a_page(self, ann: httpx2.AsyncClient, odd: str) -> None:
        shown = await open_page(ann, f"/together?{odd}")
        assert "Nothing is ticked" in shown.words
        assert "evil" not in shown.html

    async def test_each_that_is_ticked_gets_its_own_answer_and_is_shown_before(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        asked = [
            await desk.post(f"Refund {n}?", form=Approval.of("refund", {"order": n, "note": f"note-{n}"}))
            for n in range(4)
        ]
        risky = await desk.post("Refund all?", form=Approval.of("refund", {"order": "*"}, risk="high"))
        other = await desk.post("Go?", form=Confirm())
        shown = await open_page(ann, f"/together?like={asked[0].id}")
        assert "4 questions" in shown.words
        assert all(f"note-{n}" in shown.agents_text for n in range(4))
        assert "it is of high risk" in shown.words
        sheet = shown.sheet("data-together")
        sheet.tick("id", *(each.id for each in asked[:3]))
        sent = await send(ann, sheet, ("decision", "approve"))
        assert sent.status_code == 303
        result = await open_page(ann, sent.headers["location"])
        assert result.words.count("Approved") == 3
        for each in asked[:3]:
            question = await desk.get(each.id)
            assert question.decision is not None
            assert question.decision.approved
            [answered] = [event for event in await desk.history(each.id) if event.kind == "answered"]
            assert answered.by == "ann"
        for left in (asked[3], risky, other):
            assert (await desk.get(left.id)).outcome is None

    async def test_nothing_is_answered_that_was_not_shown_or_must_be_opened(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        plain = await desk.post("Refund?", form=Approval.of("refund", {"order": 1}))
        risky = await desk.post("Drop?", form=Approval.of("drop", {"t": 1}, risk="high"))
        theirs = await desk.post("Refund?", form=Approval.of("refund", {"order": 2}), recipients=["bob"])
        page = (await open_page(ann, f"/together?id={plain.id}&id={risky.id}&id={theirs.id}")).html
        assert str(theirs.id) not in page
        digest = (await open_page(ann, f"/questions/{risky.id}")).sheet().sent()["shown"][0]
        pairs = [("id", each.id) for each in (plain, risky, theirs)]
        pairs += [
            (f"shown.{plain.id}", "0" * 64),
            (f"shown.{risky.id}", digest),
            (f"shown.{theirs.id}", digest),
        ]
        body = urlencode([*pairs, ("decision", "approve")])
        await ann.post("/together", content=body, headers=ORIGIN | FORM)
        for each in (plain, risky, theirs):
            assert (await desk.get(each.id)).outcome is None
