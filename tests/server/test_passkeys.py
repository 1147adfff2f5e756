"""Passkeys: who may approve what the policy says needs one, and what no signature is good for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from handraise import Approval, PermissionDenied
from handraise.desk.audit_export import export_lines
from handraise.desk.local_desk import LocalDesk
from handraise.model.audit_verification import verify
from handraise.model.identities import Role
from handraise.model.passkey_signatures import proof_from_json
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_session
from handraise.server.passkeys.ceremony import find_fault, open_ceremony
from handraise.testing import ManualClock
from support.authenticator import SoftAuthenticator
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

HERE = "http://localhost:8765"
RULE: dict[str, Any] = {
    "name": "deletions",
    "when": "tool == 'delete'",
    "then": {"require": {"evidence": "passkey"}},
}
NOT_RESPONSES: tuple[Any, ...] = ({}, None, [1], "é")


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"public_url": HERE}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC))


@pytest.fixture
async def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    await ctx.policies.put(workspace, {"rules": [RULE]}, by="boss", expected=0)
    return ctx.desk.scoped(workspace, asker="cleaner")


class Browser:
    """A person at a browser, with a passkey in software."""

    def __init__(self, http: httpx2.AsyncClient, name: str, **options: bool) -> None:
        self.http = http
        self.name = name
        self.key = SoftAuthenticator(HERE, **options)

    async def post(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form."""
        return await self.http.post(path, data=fields, headers={"origin": HERE})

    async def register(self, confirm: SoftAuthenticator | None = None) -> httpx2.Response:
        """Add the passkey to the account."""
        asked = (await self.post("/me/passkeys/new")).json()
        created = signature(asked, self.key.create(asked["create"]))
        confirmed = signature(asked, confirm.get(asked["get"])) if confirm else ""
        return await self.post("/me/passkeys", name="My phone", created=created, confirmed=confirmed)

    async def sign(self, question: Question, **fields: str) -> str:
        """What the passkey signs for a form."""
        asked = (await self.post(f"/questions/{question.id}/signature", **fields)).json()
        return signature(asked, self.key.get(asked["get"]))

    async def decide(self, question: Question, passkey: str = "", **fields: str) -> httpx2.Response:
        """Send a decision."""
        return await self.post(f"/questions/{question.id}", passkey=passkey, **fields)


def signature(asked: dict[str, Any], credential: dict[str, Any]) -> str:
    return json.dumps({"nonce": asked["nonce"], "credential": credential})


@pytest.fixture
async def open_browser(
    client_from: Callable[[str], httpx2.AsyncClient], issuer: Issuer, workspace: str
) -> AsyncIterator[Callable[..., Any]]:
    opened: list[httpx2.AsyncClient] = []

    async def open_one(name: str, *, token: str | None = None, **options: bool) -> Browser:
        client = client_from("192.0.2.1")
        opened.append(client)
        client.cookies.set("handraise", token or await issuer.person(workspace, name, role=Role.MEMBER))
        return Browser(client, name, **options)

    yield open_one
    for each in opened:
        await each.aclose()


@pytest.fixture
async def ann(open_browser: Callable[..., Any]) -> Browser:
    browser: Browser = await open_browser("ann")
    assert (await browser.register()).status_code == 303
    return browser


async def asked(desk: LocalDesk, table: str = "logs", **options: Any) -> Question:
    return await desk.post(
        f"May I delete {table}?", form=Approval.of("delete", {"table": table}, editable=["table"]), **options
    )


def form_of(question: Question, decision: str = "approve", **fields: str) -> dict[str, str]:
    """The fields of the question's page."""
    form = question.form
    assert isinstance(form, Approval)
    return {"digest": form.digest, "decision": decision} | fields


@on_every_store
async def test_a_passkey_signs_the_approval_and_the_trail_proves_it_without_the_store(
    ctx: ServerContext, desk: LocalDesk, ann: Browser, workspace: str
) -> None:
    question = await asked(desk)
    fields = form_of(question)
    response = await ann.decide(question, await ann.sign(question, **fields), **fields)
    assert response.status_code == 303, response.text
    settled = await desk.get(question.id)
    assert settled.decision
    assert settled.outcome.evidence == "passkey"  # type: ignore[union-attr]
    assert (await desk.consume_approval(question.id)).tool == "delete"
    page = (await ann.http.get(f"/questions/{question.id}")).text
    assert "signed with a passkey" in page

    await ctx.sealer().seal(workspace)
    lines = [line async for line in export_lines(ctx.store, ctx.ledger, workspace)]
    verdict = verified(lines)
    assert (verdict.fault, verdict.signed_decisions) == (None, 1)
    without = verify(lambda: lines, unsigned=True)
    assert "handraise[passkeys]" in str(without.fault)


@pytest.mark.parametrize(
    ("is_copied", "why"),
    [(False, "none signed this decision"), (True, "the passkey did not sign this decision")],
)
async def test_a_trail_with_an_approval_that_no_passkey_signed_is_not_good(
    ctx: ServerContext, desk: LocalDesk, ann: Browser, workspace: str, *, is_copied: bool, why: str
) -> None:
    """A program with access to the store makes up an approval of ann, alone or with her signature of another one."""
    question, other = await asked(desk), await asked(desk, "invoices")
    fields = form_of(question)
    await ann.decide(question, await ann.sign(question, **fields), **fields)
    [given] = [event.data["passkey"] for event in await desk.history(question.id) if event.kind == "answered"]
    proof = proof_from_json(given) if is_copied else None
    await desk.answer(other.id, "approve", by="ann", provenance=Provenance(evidence="passkey", passkey=proof))
    await ctx.sealer().seal(workspace)
    lines = [line async for line in export_lines(ctx.store, ctx.ledger, workspace)]
    assert why in str(verified(lines).fault)


def verified(lines: Iterable[str]) -> Any:
    return verify(lambda: lines, unsigned=True, check_passkey=find_fault)


async def test_a_session_without_a_passkey_may_deny_and_not_approve(
    client: httpx2.AsyncClient,
    desk: LocalDesk,
    open_browser: Callable[..., Any],
    issuer: Issuer,
    workspace: str,
) -> None:
    bob: Browser = await open_browser("bob")
    question = await asked(desk)
    page = (await bob.http.get(f"/questions/{question.id}")).text
    assert "The policy requires a passkey, and you have none yet." in page
    refused = await bob.decide(question, **form_of(question))
    assert (refused.status_code, (await desk.get(question.id)).outcome) == (403, None)
    assert "the policy requires a passkey" in refused.text

    headers = bearer(await issuer.person(workspace, "bob"))
    answer = f"/v1/questions/{question.id}/answer"
    for body in ({"value": "approve"}, {"value": "approve", "evidence": "passkey"}):
        assert (await client.post(answer, json=body, headers=headers)).status_code in (403, 422)
    for evidence in (None, "session", "slack-signature", "passkeys", "passkey-x"):
        with pytest.raises(PermissionDenied):
            await desk.answer(question.id, "approve", by="bob", provenance=Provenance(evidence=evidence))
    assert (await desk.get(question.id)).outcome is None
    denied = await bob.decide(question, **form_of(question, "deny"))
    assert denied.status_code == 303
    assert not (await desk.get(question.id)).decision


async def test_a_passkey_approves_what_the_session_is_too_weak_for(
    ctx: ServerContext, desk: LocalDesk, ann: Browser, open_browser: Callable[..., Any], workspace: str
) -> None:
    session = await issue_session(ctx, workspace, person="ann", how="invitation", vouched_by="boss")
    assert session is not None
    weak: Browser = await open_browser("ann", token=session.token)
    weak.key = ann.key
    question = await desk.post("Drop it?", form=Approval.of("drop", {"table": "logs"}, risk="high"))
    fields = form_of(question)
    page = (await weak.http.get(f"/questions/{question.id}")).text
    assert "This sign-in is too weak to approve this." in page
    assert "Approve with your passkey" in page
    assert (await weak.decide(question, **fields)).status_code == 403
    assert (await weak.decide(question, await weak.sign(question, **fields), **fields)).status_code == 303
    settled = await desk.get(question.id)
    assert settled.decision
    assert settled.outcome.evidence == "passkey"  # type: ignore[union-attr]


async def test_a_passkey_that_is_as_weak_as_the_session_is_not_asked_for(
    ctx: ServerContext, desk: LocalDesk, open_browser: Callable[..., Any], issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "ann")
    session = await issue_session(ctx, workspace, person="ann", how="invitation", vouched_by="boss")
    assert session is not None
    weak: Browser = await open_browser("ann", token=session.token)
    assert (await weak.register()).status_code == 303
    question = await desk.post("Drop it?", form=Approval.of("drop", {"table": "logs"}, risk="high"))
    page = (await weak.http.get(f"/questions/{question.id}")).text
    assert "made the link that this session began with" in page
    assert "Approve with your passkey" not in page


async def test_sending_back_needs_no_passkey_in_any_session(
    ctx: ServerContext, desk: LocalDesk, ann: Browser, open_browser: Callable[..., Any], workspace: str
) -> None:
    fields = {"do": "send back", "why": "smaller"}
    questions = [await asked(desk), await asked(desk), await asked(desk, quorum=2)]
    assert (await ann.decide(questions[0], **fields)).status_code == 303
    session = await issue_session(ctx, workspace, person="ann", how="invitation", vouched_by="boss")
    assert session is not None
    weak: Browser = await open_browser("ann", token=session.token)
    for question in questions[1:]:
        assert (await weak.decide(question, **fields)).status_code == 303
    assert [(await desk.get(each.id)).status for each in questions] == ["returned", "returned", "pending"]


async def test_a_signature_is_good_for_nothing_but_the_decision_that_was_signed(
    desk: LocalDesk, ann: Browser, open_browser: Callable[..., Any], clock: ManualClock
) -> None:
    question, other = await asked(desk, quorum=2), await asked(desk, quorum=2)
    fields = form_of(question)
    bob: Browser = await open_browser("bob")
    await bob.register()

    signed = await ann.sign(question, **fields)
    edited = form_of(question, v0="invoices")
    for browser, about, sent in (
        (ann, other, form_of(other)),  # another question
        (ann, question, form_of(question, reason="because")),  # other words
        (bob, question, fields),  # another person
    ):
        response = await browser.decide(about, signed, **sent)
        assert response.status_code == 403, sent
        assert "your passkey" in response.text
    confirmed = await ann.decide(question, signed, **edited)
    assert confirmed.status_code != 303, "an edit is shown first"
    assert not (await desk.get(question.id)).votes

    assert (await ann.decide(question, signed, **fields)).status_code == 303
    assert (await ann.decide(question, **form_of(question, "deny"))).status_code == 303
    again = await ann.decide(question, signed, **fields)  # she has denied it meanwhile
    assert again.status_code == 403
    assert "used already" in again.text

    late = await ann.sign(other, **form_of(other))
    clock.advance(timedelta(minutes=5))
    assert (await ann.decide(other, late, **form_of(other))).status_code == 403
    assert not (await desk.get(other.id)).votes


async def test_a_signature_does_not_approve_a_longer_conversation_than_the_one_that_was_signed(
    desk: LocalDesk, ann: Browser
) -> None:
    question = await asked(desk, replies="program")
    await desk.ask_back(question.id, "Which logs?", by="bob")
    fields = form_of(question, seen="1")
    signed = await ann.sign(question, **fields)
    await desk.reply(question.id, "All of them.")
    moved = await ann.decide(question, signed, **fields)
    assert (moved.status_code, "The conversation has moved on." in moved.text) == (409, True)
    signed = await ann.sign(question, **fields)
    claimed = await ann.decide(question, signed, **form_of(question, seen="2"))
    assert (claimed.status_code, "your passkey" in claimed.text) == (403, True), "signed for one message"
    assert (await desk.get(question.id)).outcome is None
    fields = form_of(question, seen="2")
    assert (await ann.decide(question, await ann.sign(question, **fields), **fields)).status_code == 303
    assert (await desk.get(question.id)).decision


async def test_a_signature_of_a_denial_or_of_an_edit_does_not_approve_the_action(
    desk: LocalDesk, ann: Browser
) -> None:
    question = await asked(desk)
    form = question.form
    assert isinstance(form, Approval)
    canonical = form.digest
    edits = form_of(question, v0="invoices")
    first = await ann.post(f"/questions/{question.id}/signature", **edits)
    assert first.json() == {}, "the person has not seen the difference yet"
    shown = await ann.decide(question, **edits)
    assert shown.status_code == 200
    digest = shown.text.split('name="digest" value="')[1].split('"')[0]
    assert digest != canonical
    signed = await ann.sign(question, **(edits | {"digest": digest}))
    assert (await ann.decide(question, signed, **form_of(question))).status_code == 403
    assert (await ann.decide(question, signed, **(edits | {"digest": digest}))).status_code == 303
    action = await desk.consume_approval(question.id)
    assert action.arguments == {"table": "invoices"}


@pytest.mark.parametrize(
    "sent",
    ["x", "{}", "[]", "null", '{"nonce": "n"}', '{"nonce": {}, "credential": []}', "[" * 20_000]
    + [json.dumps({"nonce": "n", "credential": {"id": "x", "response": value}}) for value in NOT_RESPONSES],
)
async def test_what_is_not_a_signature_is_refused(desk: LocalDesk, ann: Browser, sent: str) -> None:
    question = await asked(desk)
    response = await ann.decide(question, sent, **form_of(question))
    assert response.status_code == 403
    assert (await desk.get(question.id)).outcome is None
    for path in ("/me/passkeys", f"/me/passkeys/{ann.key.id}/remove"):
        assert (await ann.post(path, created=sent, confirmed=sent)).status_code in (403, 422)


async def test_an_authenticator_that_did_not_verify_its_user_or_was_copied_is_refused(
    desk: LocalDesk, open_browser: Callable[..., Any]
) -> None:
    careless: Browser = await open_browser("cat", verifies=False)
    assert (await careless.register()).status_code == 403
    bob: Browser = await open_browser("bob", counts=True)
    assert (await bob.register()).status_code == 303
    question = await asked(desk, quorum=2)
    fields = form_of(question)
    assert (await bob.decide(question, await bob.sign(question, **fields), **fields)).status_code == 303
    bob.key.count -= 1  # a copy of the key does not know of the last signature
    copied = await bob.decide(question, await bob.sign(question, **fields), **fields)
    assert (copied.status_code, "a copy of it" in copied.text) == (403, True)


async def test_an_administrator_cannot_approve_for_somebody_else_with_a_passkey_of_their_own(
    ctx: ServerContext, desk: LocalDesk, open_browser: Callable[..., Any], issuer: Issuer, workspace: str
) -> None:
    """They make a link for ann, sign in with it, and add a passkey: it says who made the link."""
    await issuer.person(workspace, "ann")
    session = await issue_session(ctx, workspace, person="ann", how="invitation", vouched_by="boss")
    assert session is not None
    boss: Browser = await open_browser("ann", token=session.token)
    assert (await boss.register()).status_code == 303
    page = (await boss.http.get("/me")).text
    assert "It does not count for high risk" in page
    question = await asked(desk)
    fields = form_of(question)
    refused = await boss.decide(question, await boss.sign(question, **fields), **fields)
    assert refused.status_code == 403
    assert (await desk.get(question.id)).outcome is None

    second: Browser = await open_browser("ann", token=session.token)
    assert (await second.register(confirm=boss.key)).status_code == 303
    assert [each.vouched_by for each in await ctx.directory.passkeys(workspace, "ann")] == ["boss", "boss"]


async def test_a_passkey_is_added_by_a_fresh_session_or_by_another_passkey(
    ctx: ServerContext, open_browser: Callable[..., Any], workspace: str, ann: Browser
) -> None:
    """A stolen session is usually not fresh, and has no passkey."""
    token = ann.http.cookies["handraise"]
    thief: Browser = await open_browser("ann", token=token)
    assert (await thief.register()).status_code == 403
    assert (await thief.register(confirm=thief.key)).status_code == 403
    assert (await thief.post(f"/me/passkeys/{ann.key.id}/remove")).status_code == 403
    asked = (await thief.post(f"/me/passkeys/{ann.key.id}/signature")).json()
    forged = signature(asked, thief.key.get(asked["get"]))
    assert (await thief.post(f"/me/passkeys/{ann.key.id}/remove", confirmed=forged)).status_code == 403
    second: Browser = await open_browser("ann", token=token)
    assert (await second.register(confirm=ann.key)).status_code == 303
    asked = (await ann.post(f"/me/passkeys/{ann.key.id}/signature")).json()
    confirmed = signature(asked, second.key.get(asked["get"]))
    assert (await ann.post(f"/me/passkeys/{ann.key.id}/remove", confirmed=confirmed)).status_code == 303
    assert [each.id for each in await ctx.directory.passkeys(workspace, "ann")] == [second.key.id]


@pytest.mark.parametrize("clock", [ManualClock(datetime.now(UTC) - timedelta(minutes=16))])
async def test_an_old_session_cannot_add_the_first_passkey(open_browser: Callable[..., Any]) -> None:
    bob: Browser = await open_browser("bob")
    assert (await bob.post("/me/passkeys/new")).status_code == 403
    assert "To add your first passkey" in (await bob.http.get("/me")).text


async def test_an_administrator_lists_and_removes_passkeys_and_nobody_else_does(
    ctx: ServerContext, ann: Browser, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    boss = bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))
    others = [ann.http.cookies["handraise"], await issuer.agent(workspace, "cleaner")]
    path = "/v1/people/ann/passkeys"
    for token in others:
        assert (await client.get(path, headers=bearer(token))).status_code == 403
        assert (await client.delete(f"{path}/{ann.key.id}", headers=bearer(token))).status_code == 403
    [found] = (await client.get(path, headers=boss)).json()["passkeys"]
    assert (found["id"], found["name"], found["domain"]) == (ann.key.id, "My phone", "localhost")
    assert (await client.get("/v1/people/nobody/passkeys", headers=boss)).status_code == 404
    assert (await client.delete(f"/v1/people/boss/passkeys/{ann.key.id}", headers=boss)).status_code == 404
    assert (await client.delete(f"{path}/{ann.key.id}", headers=boss)).status_code == 204
    assert (await client.delete(f"{path}/{ann.key.id}", headers=boss)).status_code == 404
    kinds = [(each.kind, each.by) for each in await ctx.store.trail(workspace, after=None, limit=99)]
    assert kinds[-1] == ("passkey.removed", "boss")


async def test_nobody_signs_for_a_question_that_they_cannot_see(
    desk: LocalDesk, ann: Browser, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    question = await asked(desk, recipients=["bob"])
    agent = bearer(await issuer.agent(workspace, "cleaner"))
    path = f"/questions/{question.id}/signature"
    assert (await ann.post(path, **form_of(question))).status_code == 404
    assert (await client.post(path, headers=agent)).status_code in (303, 403)
    elsewhere = await ann.http.post(path, data=form_of(question), headers={"origin": "https://evil.example"})
    assert elsewhere.status_code == 403


async def test_no_grant_approves_what_needs_a_passkey(ctx: ServerContext, workspace: str) -> None:
    desk = ctx.desk.scoped(workspace, asker="cleaner")
    form = Approval.of("delete", {"table": "logs"}, scopes=["once", "always"])
    before = await desk.post("May I?", form=form)
    await desk.answer(before.id, {"decision": "approve", "scope": "always"}, by=Responder("ann"))
    await ctx.policies.put(workspace, {"rules": [RULE]}, by="boss", expected=0)
    question = await desk.post("May I again?", form=form)
    assert isinstance(question.form, Approval)
    assert question.form.scopes == ("once",)
    assert await desk.apply_grant(question.id) is None


@pytest.mark.parametrize(
    ("address", "is_possible"),
    [
        ("https://handraise.example", True),
        ("http://localhost:8765", True),
        ("http://handraise.example", False),
        ("http://127.0.0.1:8765", False),
        ("https://192.0.2.1", False),
        ("https://[2001:db8::1]", False),
    ],
)
def test_browsers_have_passkeys_for_https_and_localhost(address: str, *, is_possible: bool) -> None:
    assert (open_ceremony(address) is not None) == is_possible
