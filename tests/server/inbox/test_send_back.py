"""Sending back in a browser without scripts, and the question that comes after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open, Question
from handraise.desk.local_desk import LocalDesk
from handraise.model.forms import AnyForm
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.outcomes import Returned
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, open_page, send
from tests.server.inbox.hostile import MARK
from tests.server.inbox.scene import link_to

REFUND = Approval.of("refund", {"order": "A-7", "amount": 300}, editable=["amount"])
SMALLER = Approval.of("refund", {"order": "A-7", "amount": 30})
WHY = "Only 30:\nthe rest was paid."
KINDS: dict[str, AnyForm] = {
    "choice": Choice.of("a", "b"),
    "several": MultiChoice.of("a", "b"),
    "text": Open(),
    "yes or no": Confirm(),
    "form": Form(fields=(Field(name="who", form=Open(type="email")),)),
    "approval": REFUND,
}


@pytest.fixture
async def bob(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_from("192.0.2.3") as client:
        client.cookies.set("handraise", await issuer.person(workspace, "bob", role=Role.MEMBER))
        yield client


def here(question: Question) -> str:
    return f"/questions/{question.id}"


async def send_back(client: httpx2.AsyncClient, path: str, why: str = WHY) -> httpx2.Response:
    sheet = (await open_page(client, path)).sheet("data-send-back")
    sheet.fill("why", why)
    return await send(client, sheet)


class TestSendingBack:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_every_kind_is_sent_back_with_a_reason(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, kind: str
    ) -> None:
        question = await desk.post("What now?", form=KINDS[kind])
        sheet = (await open_page(ann, here(question))).sheet("data-send-back")
        sheet.fill("why", WHY)
        sent = await send(ann, sheet)
        assert (sent.status_code, sent.headers["location"]) == (303, here(question))
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Returned)
        assert (outcome.by, outcome.reason, outcome.channel) == ("ann", WHY, "web")
        assert (await desk.history(question.id))[-1].data["shown_digest"] == sheet.sent()["shown"][0]
        shown = await open_page(ann, here(question))
        assert "Sent back by you" in shown.words
        assert "signed in with a session" in shown.words
        assert " ".join(WHY.split()) in shown.words
        assert (await send(ann, sheet)).status_code == 303, "a second click changes nothing"

    @pytest.mark.parametrize("why", ["", " \n ", "x" * 10_001])
    async def test_needs_a_reason_and_keeps_what_was_written(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, why: str
    ) -> None:
        question = await desk.post("What now?", form=REFUND)
        refused = await send_back(ann, here(question), why)
        assert refused.status_code == 422
        shown = Page(refused.text)
        assert "Not sent:" in shown.words
        [kept] = [each.value for each in shown.sheet("data-send-back").inputs if each.name == "why"]
        assert kept.strip() == why.strip()
        assert (await desk.get(question.id)).outcome is None
        assert len(await desk.history(question.id)) == 1

    async def test_what_was_written_is_shown_if_it_ended_before(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("What now?", form=REFUND)
        sheet = (await open_page(ann, here(question))).sheet("data-send-back")
        sheet.fill("why", "Too much.")
        await desk.answer(question.id, "deny", by="bob")
        late = await send(ann, sheet)
        assert late.status_code == 409
        words = Page(late.text).words
        assert "Nothing of yours was recorded" in words
        assert "Too much." in words
        assert "Denied by bob" in words

    @pytest.mark.parametrize(
        "headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {}]
    )
    async def test_another_site_cannot(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, headers: dict[str, str]
    ) -> None:
        question = await desk.post("What now?", form=REFUND)
        refused = await ann.post(here(question), content="do=send+back&why=x", headers=headers | FORM)
        assert refused.status_code == 403
        assert (await desk.get(question.id)).outcome is None

    async def test_who_may_not_answer_cannot(
        self, boss: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("What now?", form=REFUND, recipients=["ann"])
        forged = {"do": "send back", "why": "x"}
        assert "data-send-back" not in (await open_page(boss, here(question))).html
        assert (await boss.post(here(question), data=forged, headers=ORIGIN)).status_code == 403
        assert (await bob.post(here(question), data=forged, headers=ORIGIN)).status_code == 404
        assert (await desk.get(question.id)).outcome is None

    async def test_the_asker_cannot(
        self, client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
    ) -> None:
        """A person whose name is that of the agent."""
        question = await ctx.desk.scoped(workspace, asker="ann").post("What now?", form=REFUND)
        client.cookies.set("handraise", await issuer.person(workspace, "ann", role=Role.ADMIN))
        forged = {"do": "send back", "why": "x"}
        assert "data-send-back" not in (await open_page(client, here(question))).html
        assert (await client.post(here(question), data=forged, headers=ORIGIN)).status_code == 403
        agent = {"authorization": f"Bearer {await issuer.agent(workspace, 'ann')}"}
        client.cookies.clear()
        assert (await client.post(here(question), data=forged, headers=agent | ORIGIN)).status_code != 303
        assert (await ctx.desk.scoped(workspace).get(question.id)).outcome is None

    async def test_behind_a_link_too_but_not_at_high_risk(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk
    ) -> None:
        question = await desk.post("What now?", form=REFUND)
        path = await link_to(ctx, question)
        assert (await send_back(ann, path)).status_code == 303
        assert (await desk.get(question.id)).status == "returned"
        risky = await desk.post("What now?", form=Approval.of("drop", {}, risk="high"))
        forged = await ann.post(
            await link_to(ctx, risky), data={"do": "send back", "why": "x"}, headers=ORIGIN
        )
        assert forged.status_code == 403
        assert (await desk.get(risky.id)).outcome is None

    async def test_is_among_the_settled_ones_and_found(
        self, ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("What now?", form=REFUND, conversation="c")
        await desk.send_back(question.id, by="ann", reason="a peculiar reason")
        settled = await open_page(ann, "/settled")
        assert "Sent back by you" in settled.words
        assert "a peculiar reason" in settled.agents_text
        assert question.id in (await open_page(ann, "/settled?q=peculiar")).html
        assert "Sent back" in (await open_page(ann, "/conversation?name=c")).words
        insights = (await open_page(boss, "/insights")).words
        assert "Sent back by a person 1" in insights
        assert "sent back" in insights


class TestVotes:
    async def test_a_vote_to_send_back_is_no_vote_to_decline(
        self, ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        question = await desk.post("What now?", form=REFUND, quorum=2, recipients=["ann", "bob"])
        assert (await send_back(bob, here(question), "Too much.")).status_code == 303
        shown = await open_page(ann, here(question))
        assert "Sent back" in shown.words
        assert "Too much." in shown.words
        assert "Declined to answer" not in shown.words
        assert "data-agree" not in shown.html
        assert "Send it back too" in shown.words
        forged = await ann.post(here(question), data={"agree": "returned"}, headers=ORIGIN)
        assert forged.status_code == 422, "it needs a reason of their own"
        assert (await desk.get(question.id)).status == "pending"
        assert (await send_back(ann, here(question), "Mine too.")).status_code == 303
        assert (await desk.get(question.id)).status == "returned"
        assert (
            "A vote by bob through the inbox to send it back" in (await open_page(ann, here(question))).words
        )
        assert "You voted: Sent back" in (await open_page(ann, here(question))).words


class TestTheNewQuestion:
    async def test_shows_what_changed_and_both_pages_link_to_each_other(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        old = await desk.post("Refund the order?", form=REFUND, replies="program")
        await desk.ask_back(old.id, "Which customer?", by="ann")
        await desk.reply(old.id, "Customer 12.")
        await desk.send_back(old.id, by="bob", reason="Only 30.")
        before = await open_page(ann, here(old))
        assert "Asked again" not in before.words
        new = await desk.post("Refund a part?", form=SMALLER, replaces=old.id)
        shown = await open_page(ann, here(new))
        assert "This replaces a question that bob sent back" in shown.words
        for text in ("Only 30.", "Refund the order?", "300", "Which customer?", "Customer 12."):
            assert text in shown.agents_text, text
        assert here(old) in [attrs.get("href") for tag, attrs in shown.tags if tag == "a"]
        assert len({attrs["id"] for _, attrs in shown.tags if attrs.get("id")}) == sum(
            "id" in attrs for _, attrs in shown.tags
        ), "ids are unique"
        after = await open_page(ann, here(old))
        assert "Asked again:" in after.words
        assert here(new) in [attrs.get("href") for tag, attrs in after.tags if tag == "a"]

    async def test_one_that_was_withdrawn_and_one_without_changes(
        self, ann: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        old = await desk.post("Refund?", form=REFUND)
        new = await desk.post("Refund?", form=REFUND, replaces=old.id)
        shown = await open_page(ann, here(new))
        assert "This replaces an earlier question: Withdrawn by the agent" in shown.words
        assert "Nothing changed in what is asked." in shown.words

    async def test_only_people_who_may_see_the_earlier_one_see_it(
        self, ann: httpx2.AsyncClient, bob: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
    ) -> None:
        old = await desk.post("A secret prompt", form=REFUND, recipients=["bob"])
        await desk.send_back(old.id, by="bob", reason="A secret reason")
        new = await desk.post("Refund?", form=SMALLER, recipients=["ann"], replaces=old.id)
        seen = await open_page(ann, here(new))
        assert "data-earlier" not in seen.html
        assert "secret" not in seen.html
        assert old.id not in seen.html
        assert "data-earlier" in (await open_page(boss, here(new))).html
        theirs = await open_page(bob, here(old))
        assert "The agent asked again, but not you." in theirs.words
        assert new.id not in theirs.html

    async def test_a_link_is_for_one_question(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk
    ) -> None:
        old = await desk.post("The earlier prompt", form=REFUND)
        new = await desk.post("Refund?", form=SMALLER, replaces=old.id)
        shown = await open_page(ann, await link_to(ctx, new))
        assert "earlier prompt" not in shown.html

    @pytest.mark.parametrize(
        "text",
        [
            f"<script>alert('{MARK}')</script>",
            f"<img src=//evil.example/{MARK}.png onerror=alert(1)>",
            f"</td></table><form action=//evil.example><button>{MARK}</button>",
            f"{MARK}\u202e\x00x",
        ],
    )
    async def test_earlier_texts_are_only_texts(
        self, ann: httpx2.AsyncClient, desk: LocalDesk, text: str
    ) -> None:
        safe = text.replace("\x00", "")
        arguments = {safe: safe, "long": f"{safe}\n{safe}"}
        old = await desk.post(
            safe, form=Approval.of("pay", arguments), context={safe: safe}, replies="program"
        )
        await desk.note(old.id, safe, by="ann")
        await desk.send_back(old.id, by="ann", reason=safe)
        new = await desk.post("Now?", form=SMALLER, replaces=old.id)
        shown = await open_page(ann, here(new))
        assert MARK in shown.agents_text
        assert MARK not in "".join(shown.ours)
        assert "\u202e" not in shown.html
        assert not {"img", "button"} & {tag for tag, attrs in shown.tags if MARK in str(attrs)}
        scripts = [dict(attrs).get("src", "") for tag, attrs in shown.tags if tag == "script"]
        assert scripts
        assert all(str(each).startswith("/static/") for each in scripts), "only our own run"

    async def test_many_changes_are_cut(self, ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
        many: dict[str, Any] = {f"n{place}": place for place in range(150)}
        old = await desk.post("Refund?", form=Approval.of("t", many))
        new = await desk.post("Refund?", form=Approval.of("t", {}), replaces=old.id)
        assert "50 more changes are not shown." in (await open_page(ann, here(new))).words


async def test_history_says_who_sent_it_back(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("What now?")
    await desk.send_back(question.id, by="bob", reason="Only 30.", provenance=Provenance(channel="slack"))
    assert "Sent back by bob through Slack" in (await open_page(ann, here(question))).words
