"""The conversation on the pages: what people and the agent wrote, who may write, and what an approval covers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from handraise import Approval, Confirm, Open, Question, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.model.thread_messages import MOST_MESSAGES
from handraise.model.urgency import FOLD
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, Sheet, open_page, send
from tests.server.inbox.scene import link_to

REFUND = Approval.of("refund", {"order": "A-7", "amount": 500}, editable=["amount"])
APPROVE = ("decision", "approve")
ASK = ("do", "ask-back")
NOTE = ("do", "note")


def saw(messages: int) -> Provenance:
    return Provenance(seen=messages)


@pytest.fixture
async def refund(desk: LocalDesk) -> Question:
    return await desk.post("Refund?", form=REFUND, recipients=["ann", "bob"], replies="program")


@pytest.fixture
async def bob(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_from("192.0.2.3") as client:
        client.cookies.set("handraise", await issuer.person(workspace, "bob", role=Role.MEMBER))
        yield client


def here(question: Question) -> str:
    return f"/questions/{question.id}"


async def write(
    client: httpx2.AsyncClient, question: Question, text: str, button: tuple[str, str]
) -> httpx2.Response:
    """Write a message with the form on the page."""
    sheet = (await open_page(client, here(question))).sheet("data-message")
    sheet.fill("message", text)
    return await send(client, sheet, button)


async def forced(client: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    """Send a form that the page does not have."""
    return await client.post(path, data=fields, headers=ORIGIN)


def messages(page: Page) -> list[str | None]:
    return [
        attrs.get("class")
        for tag, attrs in page.tags
        if tag == "li" and "message" in (attrs.get("class") or "")
    ]


async def test_people_ask_and_note_and_everybody_sees_who_wrote_what_to_whom(
    ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    asked = await write(ann, refund, "Which customer?\nAnd <b>why</b>?", ASK)
    assert (asked.status_code, asked.headers["location"]) == (303, f"{here(refund)}#message-1")
    assert (await write(bob, refund, "I know them", NOTE)).headers["location"].endswith("#message-2")
    await desk.reply(refund.id, "Customer 12.")
    thread = await desk.thread(refund.id)
    assert [(each.kind, each.by, each.text, each.channel) for each in thread] == [
        ("asked_back", "ann", "Which customer?\nAnd <b>why</b>?", "web"),
        ("noted", "bob", "I know them", "web"),
        ("replied", "deploy-bot", "Customer 12.", None),
    ]
    page = await open_page(ann, here(refund))
    assert messages(page) == ["message asked_back", "message noted", "message replied"]
    for words in (
        "You Question to the agent",
        "bob Note for colleagues, not shown to the agent",
        "Reply in the agent's own words",
    ):
        assert words in " ".join(" ".join(page.ours).split()), words
    assert "Which customer?\nAnd &lt;b&gt;why&lt;/b&gt;?</p>" in page.html
    for text in ("Which customer?\nAnd <b>why</b>?", "I know them", "Customer 12."):
        assert [each for each in page.agents if text in each], "what others wrote is not in our words"
        assert page.html.count(text.splitlines()[0]) == 1, "the story does not say it again"
    assert "deploy-bot" in page.agents
    assert "ann Question to the agent" in (await open_page(bob, here(refund))).words


async def test_an_approval_covers_the_messages_on_its_page_and_no_others(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.ask_back(refund.id, "Which customer?", by="bob")
    sheet = (await open_page(ann, here(refund))).sheet()
    assert sheet.sent()["seen"] == ["1"]
    sheet.fill("reason", "they are right")
    await desk.reply(refund.id, "Customer 12.")
    refused = await send(ann, sheet, APPROVE)
    assert refused.status_code == 409
    page = Page(refused.text)
    assert "The conversation has moved on." in page.words
    assert messages(page) == ["message asked_back", "message replied new"]
    assert (await desk.get(refund.id)).outcome is None
    again = page.sheet()
    assert (again.sent()["seen"], again.sent()["reason"]) == (["2"], ["they are right"])
    assert (await send(ann, again, APPROVE)).status_code == 303
    settled = await desk.get(refund.id)
    assert settled.decision
    assert (await desk.history(refund.id))[-1].data["seen"] == 2
    after = await open_page(ann, here(refund))
    assert messages(after) == ["message asked_back", "message replied"], "what was said stays on the page"
    assert not [each for each in after.sheets if any(one.name == "message" for one in each.inputs)]


@pytest.mark.parametrize("forged", ["", "x", "-1", "1e9", "99999999999", "２"])
async def test_what_is_no_number_of_messages_covers_none(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question, forged: str
) -> None:
    await desk.note(refund.id, "one", by="bob")
    await desk.note(refund.id, "two", by="bob")
    sheet = (await open_page(ann, here(refund))).sheet()
    sheet.fill("seen", forged)
    assert (await send(ann, sheet, APPROVE)).status_code == 409
    assert (await desk.get(refund.id)).outcome is None


async def test_a_denial_and_a_decline_need_not_have_seen_everything(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    for button in (("decision", "deny"), None):
        question = await desk.post("Refund?", form=REFUND)
        page = await open_page(ann, here(question))
        await desk.note(question.id, "look closer", by="bob")
        sheet = page.sheet() if button else page.sheet("data-decline")
        assert (await send(ann, sheet, button)).status_code == 303
        assert (await desk.get(question.id)).outcome is not None


async def test_changed_arguments_are_confirmed_for_the_conversation_that_was_seen(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.note(refund.id, "not all of it", by="bob")
    stale = (await open_page(ann, here(refund))).sheet()
    stale.fill(next(each.name for each in stale.inputs if each.value == "500"), "400")
    confirm = Page((await send(ann, stale, APPROVE)).text).sheet("data-confirm")
    assert confirm.sent()["seen"] == ["1"]
    await desk.ask_back(refund.id, "How much?", by="bob")
    refused = await send(ann, confirm)
    assert refused.status_code == 409
    assert messages(Page(refused.text)) == ["message noted", "message asked_back new"]
    early = await send(ann, stale, APPROVE)
    assert (early.status_code, "The conversation has moved on." in early.text) == (409, True)
    fresh = Page(refused.text).sheet()
    assert "400" in fresh.body(), "the change is kept"
    last = Page((await send(ann, fresh, APPROVE)).text).sheet("data-confirm")
    assert (await send(ann, last)).status_code == 303
    assert (await desk.consume_approval(refund.id)).arguments["amount"] == 400


def joining(page: Page) -> list[Sheet]:
    return [each for each in page.sheets if any(one.name == "agree" for one in each.inputs)]


async def test_who_agrees_with_a_vote_covers_the_conversation_too(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post(
        "Refund?", form=REFUND, quorum=2, recipients=["ann", "bob", "cid"], replies="model"
    )
    await desk.answer(question.id, "approve", by="bob")
    [stale] = joining(await open_page(ann, here(question)))
    await desk.note(question.id, "wait", by="cid")
    refused = await send(ann, stale)
    assert (refused.status_code, "The conversation has moved on." in refused.text) == (409, True)
    [fresh] = joining(Page(refused.text))
    assert "500" in Page(refused.text).sheet().body(), "nobody changed the arguments"
    assert (await send(ann, fresh)).status_code == 303
    assert (await desk.get(question.id)).decision


async def test_an_approval_before_the_last_reply_no_longer_counts_and_the_pages_say_so(
    ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post(
        "Refund?", form=REFUND, quorum=2, recipients=["ann", "bob", "cid"], replies="model"
    )
    await desk.answer(question.id, "approve", by="ann")
    await desk.answer(question.id, "deny", by="cid")
    await desk.ask_back(question.id, "Which customer?", by="bob")
    assert "no longer counts" not in (await open_page(ann, here(question))).words
    await desk.reply(question.id, "Customer 12.")
    mine = await open_page(ann, here(question))
    assert "Your approval no longer counts." in mine.words
    assert "Change your vote" not in mine.words
    assert "Approved before the agent's last reply: ann." in " ".join(
        (await open_page(bob, here(question)))
        .html.replace('<span data-from="agent">', "")
        .replace("</span>", "")
        .split()
    )
    row = (await open_page(ann, "/")).words
    assert "You voted" not in row
    assert "1 of 2 agree" in row, "a denial stays"
    # The store drops it with the next vote; the page still says why.
    await desk.answer(question.id, "approve", by="bob", provenance=saw(2))
    assert "Your approval no longer counts." in (await open_page(ann, here(question))).words
    assert (await send(ann, (await open_page(ann, here(question))).sheet(), APPROVE)).status_code == 303
    assert (await desk.get(question.id)).decision


async def test_a_question_that_nobody_replies_to_takes_only_notes(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Refund?", form=REFUND)
    page = await open_page(ann, here(question))
    assert page.sheet("data-message").buttons == [NOTE]
    assert "The agent cannot reply" in page.words
    refused = await forced(ann, here(question), do="ask-back", message="Why?")
    assert refused.status_code == 409
    again = Page(refused.text)
    assert "the agent cannot reply. You can add it as a note" in again.words
    assert again.sheet("data-message").sent()["message"] == ["Why?"]
    assert (await send(ann, again.sheet("data-message"), NOTE)).status_code == 303
    assert [each.kind for each in await desk.thread(question.id)] == ["noted"]


@pytest.mark.parametrize("text", ["", " \n ", "x" * 10_001, "a\0b"])
async def test_a_message_that_cannot_be_kept_stays_in_its_box(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question, text: str
) -> None:
    refused = await write(ann, refund, text, NOTE)
    assert refused.status_code == 422
    page = Page(refused.text)
    assert "Not sent:" in page.words
    assert page.sheet("data-message").inputs[0].value.replace("\r\n", "\n").strip() == text.strip()
    assert "That does not fit yet." not in page.words, "the answer is not what does not fit"
    assert (await desk.get(refund.id)).thread == 0


async def test_a_full_thread_takes_no_more_and_can_still_be_approved(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    for number in range(MOST_MESSAGES):
        await desk.note(refund.id, f"note {number}", by="bob")
    refused = await write(ann, refund, "one more", NOTE)
    assert refused.status_code == 422
    page = Page(refused.text)
    assert "already: decide, or decline" in page.words
    assert len(messages(page)) == MOST_MESSAGES
    assert f"{MOST_MESSAGES - 12} earlier messages" in page.words
    assert (await send(ann, page.sheet(), APPROVE)).status_code == 303


async def test_a_message_that_comes_too_late_is_shown_again(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    sheet = (await open_page(ann, here(refund))).sheet("data-message")
    sheet.fill("message", "Which <i>customer</i>?")
    await desk.answer(refund.id, "deny", by="bob")
    late = await send(ann, sheet, ASK)
    assert late.status_code == 409
    page = Page(late.text)
    assert "It ended before your message arrived" in page.words
    assert "Which <i>customer</i>?" in page.words
    assert (await desk.get(refund.id)).thread == 0


async def test_an_answer_with_fields_is_below_the_conversation(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("Name it", form=Open(), replies="program")
    await desk.note(question.id, "not after a fish", by="bob")
    page = await open_page(ann, here(question))
    assert page.html.index("not after a fish") < page.html.index('name="v"')
    sheet = page.sheet()
    sheet.fill("v", "Ada")
    assert (await send(ann, sheet)).status_code == 303
    assert "not after a fish" in (await open_page(ann, here(question))).words


async def test_while_people_wait_for_the_agent_the_page_says_so_and_takes_answers(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    assert "Waiting for the agent" not in (await open_page(ann, here(refund))).words
    await desk.ask_back(refund.id, "Which customer?", by="bob")
    page = await open_page(ann, here(refund))
    assert "Waiting for the agent's reply" in page.words
    await desk.note(refund.id, "I wait", by="bob")
    page = await open_page(ann, here(refund))
    assert "Waiting for the agent's reply" in page.words
    assert (await send(ann, page.sheet(), APPROVE)).status_code == 303
    assert "Waiting for the agent" not in (await open_page(ann, here(refund))).words


async def test_what_waits_for_the_agent_is_last_in_the_list_and_not_counted(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    urgent = await desk.post("Refund the urgent one?", form=REFUND, replies="program", expires_in=600)
    calm = await desk.post("Is it calm?", form=Confirm())
    await desk.ask_back(urgent.id, "Why?", by="bob")
    for path in ("/", "/?q=is", "/?q=refund"):
        page = await open_page(ann, path)
        assert "Waiting for the agent" in page.words or path == "/?q=is"
    page = await open_page(ann, "/")
    assert "(1) Waiting" in page.words
    assert "1 question" in page.words
    rows = [attrs for tag, attrs in page.tags if tag == "li" and "data-row" in attrs]
    assert [(each["data-row"], "data-agents-turn" in each) for each in rows] == [
        (calm.id, False),
        (urgent.id, True),
    ]
    assert (
        page.html.index("Is it calm?") < page.html.index("agents-turn-title") < page.html.index("urgent one")
    )
    await desk.answer(calm.id, True, by="bob")
    alone = await open_page(ann, "/")
    assert "Nothing waits for you now." in alone.words
    assert "Waiting for the agent" in alone.words
    assert "<title>Waiting" in alone.html
    assert 'data-queue="0"' in alone.html
    await desk.reply(urgent.id, "Because.")
    again = await open_page(ann, "/")
    assert "(1) Waiting" in again.words
    assert "Waiting for the agent" not in again.words


async def test_equal_questions_that_wait_for_the_agent_are_a_row_of_their_own(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    same = [await desk.post("Again?", form=Confirm(), replies="program") for _ in range(FOLD + 2)]
    await desk.ask_back(same[0].id, "Why?", by="bob")
    page = await open_page(ann, "/")
    assert f"({FOLD + 1}) Waiting" in page.words
    rows = [attrs for tag, attrs in page.tags if tag == "li" and "data-row" in attrs]
    assert [(each["data-row"], "data-agents-turn" in each) for each in rows] == [
        (same[1].id, False),
        (same[0].id, True),
    ]


async def test_a_question_link_covers_what_it_shows_and_can_be_written_through(
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    desk: LocalDesk,
    issuer: Issuer,
    workspace: str,
    refund: Question,
) -> None:
    await issuer.person(workspace, "ann", role=Role.MEMBER)
    path = await link_to(ctx, refund)
    sheet = (await open_page(client, path)).sheet()
    await desk.note(refund.id, "look closer", by="bob")
    refused = await send(client, sheet, APPROVE)
    page = Page(refused.text)
    assert (refused.status_code, "The conversation has moved on." in page.words) == (409, True)
    assert "look closer" in page.words
    message = page.sheet("data-message")
    message.fill("message", "Which customer?")
    written = await send(client, message, ASK)
    assert (written.status_code, written.headers["location"]) == (303, f"{path}#message-2")
    last = (await desk.history(refund.id))[-1]
    assert (last.by, last.channel, last.data["evidence"]) == ("ann", "email", "signed-link")
    assert (await client.get(f"{path}/status")).json() == {"status": "pending", "thread": 2}
    assert (await send(client, (await open_page(client, path)).sheet(), APPROVE)).status_code == 303


async def test_where_nothing_is_decided_nothing_is_written(
    client: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    """An action of high risk is not decided through a link, and no approval in a frame of another site."""
    await issuer.person(workspace, "ann", role=Role.MEMBER)
    risky = await desk.post("Refund?", form=Approval.of("refund", {}, risk="high"), replies="program")
    plain = await desk.post("Refund?", form=REFUND, replies="program")
    for path in (await link_to(ctx, risky), f"{await link_to(ctx, plain)}/frame"):
        page = await open_page(client, path)
        assert not [each for each in page.sheets if any(one.name == "message" for one in each.inputs)]
        refused = await forced(client, path, do="note", message="let me in")
        assert refused.status_code == 403
    assert (await desk.get(risky.id)).thread == (await desk.get(plain.id)).thread == 0


class TestWhoMustNotWrite:
    """Whoever may not answer may not write either: colleagues, other workspaces, other sites, agents, nobody."""

    @pytest.fixture
    async def question(self, desk: LocalDesk) -> Question:
        question = await desk.post("Refund?", form=REFUND, recipients=["bob"], replies="program")
        return await desk.note(question.id, "only for bob and his colleagues", by="bob")

    @pytest.mark.parametrize("do", ["ask-back", "note"])
    async def test_a_colleague_who_is_not_asked_sees_nothing_and_writes_nothing(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, question: Question, do: str
    ) -> None:
        assert (await ann.get(here(question))).status_code == 404
        refused = await forced(ann, here(question), do=do, message="me too")
        assert refused.status_code == 404
        assert "only for bob" not in refused.text
        assert (await desk.get(question.id)).thread == 1

    @pytest.mark.parametrize("do", ["ask-back", "note"])
    async def test_an_administrator_who_is_not_asked_reads_and_writes_nothing(
        self, boss: httpx2.AsyncClient, desk: LocalDesk, question: Question, do: str
    ) -> None:
        page = await open_page(boss, here(question))
        assert "only for bob" in page.words
        assert not [each for each in page.sheets if any(one.name == "message" for one in each.inputs)]
        refused = await forced(boss, here(question), do=do, message="and <b>me</b>")
        assert refused.status_code == 403
        kept = Page(refused.text)
        assert "Your message was not sent." in kept.words
        assert "and <b>me</b>" in kept.words
        assert (await desk.get(question.id)).thread == 1

    async def test_nobody_of_another_workspace_does(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str, desk: LocalDesk, question: Question
    ) -> None:
        client.cookies.set("handraise", await issuer.person(f"{workspace}-2", "bob", role=Role.ADMIN))
        assert (await client.get(here(question))).status_code == 404
        assert (await forced(client, here(question), do="note", message="hello")).status_code == 404
        assert (await desk.get(question.id)).thread == 1

    async def test_no_page_of_another_site_and_nobody_without_a_session_does(
        self, bob: httpx2.AsyncClient, client: httpx2.AsyncClient, desk: LocalDesk, question: Question
    ) -> None:
        sent = "do=note&message=forged"
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}):
            response = await bob.post(here(question), content=sent, headers=headers | FORM)
            assert response.status_code == 403
        anonymous = await client.post(here(question), content=sent, headers=ORIGIN | FORM)
        assert (anonymous.status_code, anonymous.headers["location"]) == (303, "/sign-in")
        assert (await desk.get(question.id)).thread == 1

    async def test_the_key_of_an_agent_does_not(
        self, client: httpx2.AsyncClient, issuer: Issuer, workspace: str, desk: LocalDesk, question: Question
    ) -> None:
        for name in ("deploy-bot", "bob"):
            key = {"authorization": f"Bearer {await issuer.agent(workspace, name)}"}
            shown = await client.get(here(question), headers=key)
            assert shown.status_code in (303, 403)
            assert "only for bob" not in shown.text
            response = await client.post(
                here(question), data={"do": "note", "message": "as bob"}, headers=ORIGIN | key
            )
            assert response.status_code in (303, 403)
            assert response.headers.get("location", "/sign-in") == "/sign-in"
        assert (await desk.get(question.id)).thread == 1


async def test_a_stage_that_is_over_keeps_its_people_from_writing(
    ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    """What they typed is shown again."""
    rule: dict[str, Any] = {
        "name": "two stages",
        "when": "tool == 'refund'",
        "then": {"require": {"stages": [["ann"], ["bob"]]}},
    }
    await ctx.policies.put(workspace, {"rules": [rule]}, by="boss", expected=0)
    question = await desk.post("Refund?", form=REFUND, replies="program")
    sheet = (await open_page(ann, here(question))).sheet("data-message")
    sheet.fill("message", "One more thing")
    await desk.answer(question.id, "approve", by=Responder("ann"))
    late = await send(ann, sheet, NOTE)
    assert (late.status_code, "One more thing" in Page(late.text).words) == (403, True)
    assert (await desk.get(question.id)).thread == 0
