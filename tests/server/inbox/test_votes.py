"""Votes in the inbox: everybody who votes sees the other votes, and can join one of them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Answered, Approval, Confirm, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import Page, Sheet, open_page, send

REFUND = Approval.of("refund", {"order": "A-7", "amount": 500}, editable=["amount"])


def edited(amount: int) -> dict[str, Any]:
    return {"decision": "approve", "arguments": {"amount": amount}}


@pytest.fixture
async def refund(desk: LocalDesk) -> Question:
    return await desk.post("Refund?", form=REFUND, quorum=2, recipients=["ann", "bob", "cid"])


def joining(page: Page) -> list[Sheet]:
    return [each for each in page.sheets if any(one.name == "agree" for one in each.inputs)]


async def test_page_shows_what_the_others_voted_and_changed(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.answer(
        refund.id,
        edited(420) | {"reason": "one item was used"},
        by="bob",
        provenance=Provenance(channel="slack"),
    )
    await desk.answer(refund.id, {"decision": "deny"}, by="cid")
    shown = await open_page(ann, f"/questions/{refund.id}")
    assert "2 people must agree." in shown.words
    for text in ("bob", "420", "500", "one item was used", "through Slack", "cid", "Denied"):
        assert text in shown.words
    assert {"ins", "del"} <= {tag for tag, _ in shown.tags}


async def test_page_says_so_if_no_agreement_is_possible_any_more(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.answer(refund.id, edited(400), by="ann")
    await desk.answer(refund.id, edited(420), by="bob")
    assert "cannot lead to an agreement" not in (await open_page(ann, f"/questions/{refund.id}")).words
    await desk.answer(refund.id, "deny", by="cid")
    shown = await open_page(ann, f"/questions/{refund.id}")
    assert "These votes cannot lead to an agreement" in shown.words
    assert "No agreement" in (await open_page(ann, "/")).words


async def test_groups_are_counted_by_their_people(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    for name in ("bob", "cid"):
        await issuer.person(workspace, name)
    await ctx.directory.put_group(workspace, "ops", ["ann", "bob"])
    question = await desk.post("Go?", form=Confirm(), quorum=2, recipients=["group:ops"])
    await desk.answer(question.id, "yes", by=Responder("ann", frozenset({"ops"})))
    await desk.answer(question.id, "no", by=Responder("bob", frozenset({"ops"})))
    assert "cannot lead to an agreement" in (await open_page(ann, f"/questions/{question.id}")).words
    await ctx.directory.put_group(workspace, "ops", ["ann", "bob", "cid"])
    assert "cannot lead to an agreement" not in (await open_page(ann, f"/questions/{question.id}")).words


async def test_a_group_that_is_too_small_is_named_before_anybody_has_voted(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    await ctx.directory.put_group(workspace, "ops", ["ann"])
    question = await desk.post("Go?", form=Confirm(), quorum=2, recipients=["group:ops"])
    words = (await open_page(ann, f"/questions/{question.id}")).words
    assert "Too few people may vote." in words
    assert "An administrator has to add people to the group ops." in words
    assert "cannot lead to an agreement" not in words
    assert "change their vote" not in words


async def test_a_rule_that_asks_for_more_people_than_a_group_has_names_the_group(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    await ctx.directory.put_person(workspace, "cid", name="Cid", email=None, role=Role.MEMBER)
    await ctx.directory.put_group(workspace, "ops", ["ann", "cid"])
    rules = [{"name": "two", "when": "true", "then": {"require": {"people": ["group:ops"], "quorum": 2}}}]
    made = await boss.put("/v1/policy", json={"rules": rules}, headers=ORIGIN)
    assert made.status_code == 200, made.text
    question = await desk.post("Go?", form=Approval.of("pay", {"amount": 1}))
    assert "Too few people" not in (await open_page(ann, f"/questions/{question.id}")).words
    await ctx.directory.put_group(workspace, "ops", ["ann"])
    words = (await open_page(ann, f"/questions/{question.id}")).words
    assert "An administrator has to add people to the group ops." in words


async def test_page_says_who_is_still_needed(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "bob")
    await ctx.directory.put_group(workspace, "ops", ["ann"])
    await ctx.directory.put_group(workspace, "legal", ["bob"])
    then = {"require": {"stages": [["group:ops"], ["group:legal"]]}}
    document = {"rules": [{"name": "both", "when": "true", "then": then}]}
    await ctx.policies.put(workspace, document, by=None, expected=0)
    question = await desk.post("Go?", form=Confirm())
    where = f"/questions/{question.id}"
    words = (await open_page(ann, where)).words
    assert "Still needed:" in words
    assert "somebody from ops, then somebody from legal" in words
    await desk.answer(question.id, "yes", by=Responder("ann", frozenset({"ops"})))
    shown = await open_page(ann, where)
    assert "somebody from ops" not in shown.words
    assert "somebody from legal" in shown.words
    assert "but not answer it" in shown.words


async def test_own_vote_shows_in_the_list_and_on_the_page(ann: httpx2.AsyncClient, refund: Question) -> None:
    assert "You voted" not in (await open_page(ann, "/")).words
    before = await open_page(ann, f"/questions/{refund.id}")
    assert "Change your vote" not in before.words
    assert (await send(ann, before.sheet(), ("decision", "deny"))).status_code == 303
    listed = await open_page(ann, "/")
    assert "You voted" in listed.words
    assert "1 of 2 agree" in listed.words
    after = await open_page(ann, f"/questions/{refund.id}")
    assert "You voted: Denied" in after.words
    assert "Change your vote" in after.words
    assert (await send(ann, after.sheet(), ("decision", "approve"))).status_code == 303
    assert "You voted: Approved" in (await open_page(ann, f"/questions/{refund.id}")).words


async def test_a_vote_of_somebody_else_is_joined_after_a_look_at_its_changes(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.answer(refund.id, edited(420), by="bob")
    [join] = joining(await open_page(ann, f"/questions/{refund.id}"))
    looked = await send(ann, join)
    assert looked.status_code == 200
    confirm = Page(looked.text)
    assert "420" in confirm.words
    assert (await desk.get(refund.id)).outcome is None
    assert (await send(ann, confirm.sheet("data-confirm"))).status_code == 303
    stored = await desk.get(refund.id)
    assert isinstance(stored.outcome, Answered)
    assert stored.decision is not None
    assert stored.decision.action.arguments["amount"] == 420


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_plain_vote_is_joined_at_once(ann: httpx2.AsyncClient, desk: LocalDesk, answer: str) -> None:
    question = await desk.post("Go?", form=Confirm(), quorum=2, recipients=["ann", "bob"])
    await desk.answer(question.id, answer, by="bob")
    [join] = joining(await open_page(ann, f"/questions/{question.id}"))
    assert (await send(ann, join)).status_code == 303
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value is (answer == "yes")


async def test_a_vote_that_was_changed_meanwhile_is_not_joined(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    await desk.answer(refund.id, edited(420), by="bob")
    [join] = joining(await open_page(ann, f"/questions/{refund.id}"))
    await desk.answer(refund.id, edited(1), by="bob")
    refused = await send(ann, join)
    assert refused.status_code == 409
    assert "changed meanwhile" in Page(refused.text).words
    assert [vote.by for vote in (await desk.get(refund.id)).votes] == ["bob"]


async def test_a_confirmed_vote_is_of_the_arguments_that_were_shown(
    ann: httpx2.AsyncClient, desk: LocalDesk, refund: Question
) -> None:
    """The page of a vote for 420, sent with another ballot's digest, approves nothing."""
    await desk.answer(refund.id, edited(420), by="bob")
    [join] = joining(await open_page(ann, f"/questions/{refund.id}"))
    confirm = Page((await send(ann, join)).text).sheet("data-confirm")
    confirm.fill("digest", REFUND.digest)
    await send(ann, confirm)
    assert [vote.by for vote in (await desk.get(refund.id)).votes] == ["bob"]
