"""The page of the policy: for administrators only, it tries a policy before it stores one, and says what is wrong."""

from __future__ import annotations

import httpx2
import pytest

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.people import Responder
from handraise.server import ServerContext
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import open_page

POLICY = """rules:
  - name: small <refunds>
    when: tool == 'refund' && args.amount <= 40
    then: {allow: {check: 1}}
"""


@pytest.fixture
def clock() -> ManualClock | None:
    return None


async def post(
    client: httpx2.AsyncClient, path: str, text: str = POLICY, version: int = 0
) -> httpx2.Response:
    return await client.post(path, data={"document": text, "version": str(version)}, headers=ORIGIN)


async def test_it_is_for_administrators_only(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    for said in (
        await ann.get("/policy"),
        await post(ann, "/policy/test"),
        await post(ann, "/policy/apply"),
        await ann.post("/policy/suspensions/x/resume", headers=ORIGIN),
    ):
        assert said.status_code == 403
        assert "This page is for administrators" in said.text
    assert await ctx.policies.current(workspace) is None
    assert 'href="/policy"' not in (await ann.get("/")).text
    assert 'href="/admin"' in (await boss.get("/")).text
    assert 'href="/policy"' in (await boss.get("/admin")).text
    ann.cookies.clear()
    agent = bearer(await issuer.agent(workspace, "bot"))
    assert (await ann.get("/policy", headers=agent)).status_code == 403
    assert (await ann.post("/policy/apply", data={"document": POLICY}, headers=agent)).status_code == 403


async def test_a_policy_is_tried_then_applied_then_listed(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    for amount, answer in ((5, "approve"), (30, "deny"), (70, "approve")):
        question = await desk.post("Refund <b>now</b>?", form=Approval.of("refund", {"amount": amount}))
        await desk.answer(question.id, answer, by=Responder("bob"))
    empty = await open_page(boss, "/policy")
    assert "No policy yet" in empty.words
    tried = await post(boss, "/policy/test")
    assert tried.status_code == 200
    assert "People denied these, and the policy would allow them" in tried.text
    assert "Refund &lt;b&gt;now&lt;/b&gt;?" in tried.text
    assert "small &lt;refunds&gt;" in tried.text
    assert await ctx.policies.current(workspace) is None
    assert (await post(boss, "/policy/apply")).status_code == 303
    current = await ctx.policies.current(workspace)
    assert current is not None
    assert (current.version.version, current.version.by) == (1, "boss")
    shown = await open_page(boss, "/policy")
    assert "Version 1" in shown.words
    assert "rule small <refunds> added" in shown.words
    late = await post(boss, "/policy/apply", POLICY.replace("40", "50"), version=0)
    assert late.status_code == 409
    assert "Somebody has stored another version" in late.text
    assert "&lt;= 50" in late.text, "what was written is not lost"


@pytest.mark.parametrize("path", ["/policy/test", "/policy/apply"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [", "This is not YAML"),
        ("a: &a [1]\nb: *a", "cannot use aliases"),
        ("rules: [{name: x, then: {}}]", "rule &#39;x&#39;"),
        ("rules: [{name: x, when: 'y', then: allow}]", "undeclared reference"),
        ("- 1", "dictionary"),
    ],
)
async def test_what_is_wrong_is_said_above_the_text_that_was_written(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, path: str, text: str, said: str
) -> None:
    refused = await post(boss, path, text)
    assert refused.status_code == 422
    assert said in refused.text
    assert "This policy cannot be used" in refused.text
    assert await ctx.policies.current(workspace) is None


async def test_a_suspended_rule_is_resumed(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, workspace: str
) -> None:
    await post(boss, "/policy/apply")
    question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 5}))
    await desk.answer(question.id, "deny", by=Responder("bob"))
    shown = await open_page(boss, "/policy")
    assert "Suspended rules" in shown.words
    action = "/policy/suspensions/small%20%3Crefunds%3E/resume"
    assert f'action="{action}"' in shown.html
    assert (await boss.post(action, headers=ORIGIN)).status_code == 303
    current = await ctx.policies.current(workspace)
    assert current is not None
    assert current.suspensions == ()
    assert (await boss.post(action, headers=ORIGIN)).status_code == 404
    assert (await boss.post("/policy/suspensions/%00/resume", headers=ORIGIN)).status_code == 404
