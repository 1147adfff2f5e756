"""The pages of an agent, a tool, a person and a conversation: what they tell, and to whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from handraise import Approval, Confirm, Question, Responder
from handraise.desk.local_desk import LocalDesk
from handraise.desk.policy_admin import put_policy
from handraise.model.away import Away
from handraise.model.identities import Role
from handraise.model.json_values import JsonValue
from handraise.model.lookalike_names import misleading_tool
from handraise.model.provenance import Provenance
from handraise.ports import Store
from handraise.server import ServerContext
from handraise.server.web.inbox.naming_rules import names_in
from support.issuer import Issuer
from tests.server.inbox.browser import Page, open_page, send

DEPLOY = Approval.of("deploy", {"region": "eu", "share": 5}, scopes=["once", "always"])
POLICY: dict[str, JsonValue] = {
    "rules": [
        {"name": "other", "when": 'tool == "other"', "then": {"deny": {"reason": "no"}}, "mode": "observe"},
        {
            "name": "careful",
            "when": "agent == 'deploy-bot' && tool in [\"deploy\"]",
            "then": {"require": {"quorum": 2}},
            "mode": "observe",
        },
    ]
}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\u202eb\u2066c",
    "a/../b/c",
    "a?b=c&d=e#f",
    "'; drop table questions; --",
    "{{ 7 * 7 }}",
    "\u0430nn",
    "x" * 200,
    "javascript:alert(1)",
]


async def failed_deployment(desk: LocalDesk, **options: object) -> Question:
    """An approval of ann that was executed, and failed."""
    question = await desk.post("Deploy now?", form=DEPLOY, recipients=["ann"], conversation="c", **options)  # type: ignore[arg-type]  # given by tests
    answer = {"decision": "approve", "scope": "always"}
    await desk.answer(question.id, answer, by="ann", provenance=Provenance(channel="web"))
    await desk.consume_approval(question.id)
    return await desk.report(question.id, ok=False, text="Three pods are not ready")


async def test_a_conversation_is_told_in_order_with_messages_hand_overs_and_reports(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    first = await desk.post("Which region?", conversation="c", recipients=["ann", "bob"], replies="program")
    await desk.ask_back(first.id, "For whom?", by="ann")
    await desk.reply(first.id, "For customer 12")
    await desk.hand_over(first.id, ["bob"], by="ann", reason="You know them")
    await desk.send_back(first.id, by="bob", reason="Name one")
    second = await desk.post(
        "Region eu?", form=Confirm(), conversation="c", recipients=["ann"], replaces=first.id
    )
    third = await failed_deployment(desk)
    page = await open_page(ann, "/conversation?name=c")
    texts = [
        "Which region?",
        "asked something by you",
        "A reply by the agent",
        "Handed over by you",
        "Sent back by bob",
        "Region eu?",
        "Deploy now?",
        "Approved by you",
        "to execute it",
        "Reported by the agent as failed",
    ]
    places = [page.html.index(text) for text in texts]
    assert places == sorted(places)
    for said in ("For whom?", "For customer 12", "You know them", "Name one", "Three pods are not ready"):
        assert said in page.agents_text
    assert f'href="#q-{first.id}">replaces an earlier question' in page.html
    assert f'href="#q-{second.id}">Jump to what waits: 1 question' in page.html
    assert f'<li class="row moment waits" id="q-{second.id}"' in page.html
    assert f'<li class="row moment" id="q-{third.id}"' in page.html


async def test_a_page_reads_questions_together_and_never_one_by_one(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await failed_deployment(desk)
        await desk.post("Which?", conversation="c", recipients=["ann"])
    calls: Counter[str] = Counter()
    for name in ("read", "history", "histories", "settled", "by_urgency"):
        _count(ctx.store, name, calls, monkeypatch)
    for path in ("/conversation?name=c", "/agent?name=deploy-bot", "/tool?name=deploy", "/person?name=ann"):
        calls.clear()
        await open_page(boss, path)
        assert calls["history"] == 0
        assert calls.total() <= 7, (path, calls)


def _count(store: Store, name: str, calls: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the calls of a method of the store."""
    method = getattr(store, name)

    async def counted(*args: Any, **options: Any) -> Any:
        calls[name] += 1
        return await method(*args, **options)

    monkeypatch.setattr(store, name, counted)


async def test_older_parts_of_a_conversation_are_on_pages_of_their_own(
    ann: httpx2.AsyncClient, desk: LocalDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handraise.server.web.inbox.conversation_page._AT_MOST", 2)
    for number in range(5):
        question = await desk.post(f"Number {number}?", form=Confirm(), conversation="c", recipients=["ann"])
        await desk.answer(question.id, "yes", by="ann")
    seen, href = [], "/conversation?name=c"
    while href:
        page = await open_page(ann, href)
        seen.append([number for number in range(5) if f"Number {number}?" in page.words])
        older = [str(attrs["href"]) for _, attrs in page.tags if "after=" in (attrs.get("href") or "")]
        href = older[0] if older and "Show older" in page.words else ""
    assert seen == [[3, 4], [1, 2], [0]]
    assert (await ann.get("/conversation?name=c&after=nonsense")).status_code == 200


async def test_an_agents_page_says_what_it_asks_how_that_is_answered_and_what_failed(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    await put_policy(ctx.policies, workspace, POLICY, by="boss", expected=0)
    await failed_deployment(desk)
    await desk.answer((await desk.post("Yes?", form=Confirm())).id, "no", by="bob")
    waiting = await desk.post("Who?", recipients=["bob"], heartbeat=600)
    await ctx.desk.scoped(workspace, asker="other-bot").post("Of another agent")
    page = await open_page(boss, "/agent?name=deploy-bot")
    for text in (
        "deploy-bot",
        "Waits for 1 answer",
        "Answered 2 100 % of 2",
        "Approved 1 0 denied",
        "Failed after approval 1",
        "Three pods are not ready",
        "last heard from just now",
        "careful requires · only observed · line 8 of the policy",
        "approved by ann",
    ):
        assert text in told_by(page), text
    [written] = [each for each in (await open_page(boss, "/policy")).sheets if each.action == "/policy/test"]
    [text] = [each.value for each in written.inputs if each.name == "document"]
    assert text.splitlines()[7] == "- name: careful"
    assert 'href="/tool?name=deploy"' in page.html
    assert f"/questions/{waiting.id}" in page.html
    assert "Of another agent" not in page.words
    assert "<strong>other</strong>" not in page.html, "that rule names another tool"


async def test_an_administrator_stops_and_resumes_an_agent_and_a_tool_on_their_pages(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for path, agent, tool in (("/agent?name=a%2Fb", "a/b", None), ("/tool?name=pay", None, "pay")):
        [form] = [each for each in (await open_page(boss, path)).sheets if each.action == "/stops"]
        form.fill("why", "wrong account")
        [confirm] = [each for each in Page((await send(boss, form)).text).sheets if each.action == "/stops"]
        assert (await send(boss, confirm, ("sure", "true"))).status_code == 303
        [stop] = await ctx.policies.stops(workspace)
        assert (stop.agent, stop.tool, stop.why) == (agent, tool, "wrong account")
        shown = await open_page(boss, path)
        assert "is stopped" in shown.words
        assert not [each for each in shown.sheets if each.action == "/stops"], "it is stopped already"
        [resume] = [each for each in shown.sheets if each.action.endswith("/end")]
        await ctx.policies.resume(workspace, resume.action.split("/")[2], by="boss")


async def test_a_tools_page_says_who_uses_it_and_counts_its_arguments(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    await put_policy(ctx.policies, workspace, POLICY, by="boss", expected=0)
    await failed_deployment(desk)
    other = ctx.desk.scoped(workspace, asker="other-bot")
    await other.post("Deploy too?", form=Approval.of("deploy", {"region": "us"}), recipients=["bob"])
    await other.post("Pay?", form=Approval.of("pay", {"amount": 1}))
    page = await open_page(boss, "/tool?name=deploy")
    told = told_by(page)
    for text in (
        "region 2 different values 2",
        "share always the same value 1",
        "careful",
        "approved by ann",
    ):
        assert text in told, text
    hrefs = {attrs.get("href") for _, attrs in page.tags}
    assert {"/agent?name=deploy-bot", "/agent?name=other-bot"} <= hrefs
    assert "Pay?" not in page.words
    assert "Three pods are not ready" in page.words


async def test_a_suspended_rule_is_not_shown_as_one_that_applies(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    rule = {"name": "small", "when": 'tool == "refund"', "then": {"allow": {"check": 1.0}}}
    await put_policy(ctx.policies, workspace, {"rules": [rule]}, by="boss", expected=0)
    question = await desk.post("Refund?", form=Approval.of("refund", {"amount": 5}))
    assert "suspended" not in told_by(await open_page(boss, "/tool?name=refund"))
    await desk.answer(question.id, "deny", by=Responder("bob"))
    assert "small allows · suspended" in told_by(await open_page(boss, "/tool?name=refund"))


async def test_a_persons_page_has_what_they_answered_hand_overs_and_times_away(
    ann: httpx2.AsyncClient,
    boss: httpx2.AsyncClient,
    desk: LocalDesk,
    ctx: ServerContext,
    issuer: Issuer,
    workspace: str,
) -> None:
    await issuer.person(workspace, "bob")
    await failed_deployment(desk)
    handed = await desk.post("Handed over?", recipients=["ann"])
    await desk.hand_over(handed.id, ["bob"], by="ann", reason="You know it")
    await desk.post("For ann?", recipients=["ann"])
    of_bob = await desk.post("Bob's own", recipients=["bob"])
    await desk.answer(of_bob.id, "mine", by="bob")
    now = datetime.now(UTC)
    away = Away(starts=now, until=now + timedelta(days=3), deputy="bob")
    await ctx.directory.set_away(workspace, "ann", away, by="ann")
    mine = await open_page(ann, "/person")
    theirs = await open_page(boss, "/person?name=ann")
    for text in (
        "Deploy now?",
        "For ann?",
        "Handed over?",
        "You know it",
        "with bob as the deputy",
        "deploy",
    ):
        assert text in mine.words, text
        assert text in theirs.words, text
    assert "Your history" in mine.words
    assert "Handed over by you to bob" in mine.words
    assert "Handed over by ann to bob" in theirs.words
    assert "Bob's own" not in mine.words + theirs.words
    assert 'href="/person"' in (await open_page(ann, "/me")).html
    assert 'href="/person?name=ann"' in (await open_page(boss, "/admin/people/ann")).html


async def test_the_history_of_somebody_who_was_removed_or_never_added_can_be_read(
    boss: httpx2.AsyncClient, ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("From a chat?", recipients=["ann", "guest"])
    await desk.answer(question.id, "yes", by="guest")
    opened = await open_page(boss, f"/questions/{question.id}")
    assert 'href="/person?name=guest"' in opened.html
    assert "/person?name=guest" not in (await open_page(ann, f"/questions/{question.id}")).html
    assert "From a chat?" in (await open_page(boss, "/person?name=guest")).words


async def test_an_agent_of_the_same_name_is_not_that_person(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    agent = ctx.desk.scoped(workspace, asker="ann")
    await agent.withdraw((await agent.post("Asked by an agent", recipients=["bob"])).id)
    assert "Asked by an agent" not in (await open_page(ann, "/person")).words


async def test_others_see_only_their_own_questions_and_neither_rules_nor_grants_nor_the_switch(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    await put_policy(ctx.policies, workspace, POLICY, by="boss", expected=0)
    secret = await desk.post("Secret", form=DEPLOY, recipients=["bob"], conversation="c", heartbeat=60)
    await desk.answer(secret.id, {"decision": "approve", "scope": "always"}, by="bob")
    await desk.post("Secret too", form=DEPLOY, recipients=["bob"], conversation="c")
    for path in ("/agent?name=deploy-bot", "/tool?name=deploy", "/conversation?name=c", "/person"):
        page = await open_page(ann, path)
        for text in ("Secret", "careful", "region", "Stop this", "Approved ahead", "last heard"):
            assert text not in page.words, (path, text)
    await desk.post("For ann", form=DEPLOY, recipients=["ann"], conversation="c")
    for path in ("/agent?name=deploy-bot", "/tool?name=deploy", "/conversation?name=c", "/person"):
        page = await open_page(ann, path)
        assert "For ann" in page.words
        for text in ("Secret", "careful", "Stop this", "Approved ahead"):
            assert text not in page.words, (path, text)


async def test_nobody_but_people_of_the_workspace_gets_in(
    ann: httpx2.AsyncClient,
    client_from: Callable[[str], httpx2.AsyncClient],
    desk: LocalDesk,
    issuer: Issuer,
    workspace: str,
) -> None:
    await failed_deployment(desk)
    await issuer.person(workspace, "bob", role=Role.MEMBER)
    paths = ("/agent?name=deploy-bot", "/tool?name=deploy", "/conversation?name=c", "/person")
    for name in ("bob", "nobody", "boss", "\x00"):
        assert (await ann.get(f"/person?{urlencode({'name': name})}")).status_code == 403
    key = await issuer.agent(workspace, "deploy-bot")
    stranger = await issuer.person("elsewhere", Responder("ann"), role=Role.ADMIN)
    async with client_from("192.0.2.7") as other:
        for path in paths:
            assert (await other.get(path)).headers["location"] == "/sign-in"
            refused = await other.get(path, headers={"authorization": f"Bearer {key}"})
            assert refused.status_code == 403
            assert "Deploy now?" not in refused.text
        other.cookies.set("handraise", stranger)
        for path in paths:
            page = await open_page(other, path)
            assert "Deploy now?" not in page.words
            assert "Three pods" not in page.words
        assert (await other.get("/person?name=bob")).status_code == 404


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_name_is_only_a_quoted_value_of_a_query(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, name: str
) -> None:
    desk = ctx.desk.scoped(workspace, asker=name)
    tool = "tool" if misleading_tool(name) else name
    question = await desk.post("Which?", form=Approval.of(tool, {name: 1}), conversation=name)
    query, about_tool = urlencode({"name": name}), urlencode({"name": tool})
    for path in (f"/agent?{query}", f"/tool?{about_tool}", f"/conversation?{query}"):
        page = await open_page(boss, path)
        assert "Which?" in page.words, path
        assert "<script>alert" not in page.html
        assert "<img src=x" not in page.html
        assert not set("\u202e\u2066").intersection(page.words), (
            "what changes the order of letters is shown, not obeyed"
        )
        own = [str(attrs["href"]) for tag, attrs in page.tags if tag == "a" and attrs.get("href")]
        assert all(each.startswith(("/", "#")) and not each.startswith("//") for each in own), own
        assert not [each for each in own if quote(name, safe="") in each.partition("?")[0]]
    opened = await open_page(boss, f"/questions/{question.id}")
    hrefs = {str(attrs.get("href")) for tag, attrs in opened.tags if tag == "a"}
    assert {f"/agent?{query}", f"/tool?{about_tool}", f"/conversation?{query}"} <= hrefs


async def test_a_page_without_a_name_does_not_exist(boss: httpx2.AsyncClient) -> None:
    for path in ("/agent", "/tool", "/agent?name=", "/person?name=nobody"):
        assert (await boss.get(path)).status_code == 404
    for path in ("/agent?name=none", "/tool?name=none", "/conversation?name=none"):
        assert (await boss.get(path)).status_code == 200


def test_a_condition_names_what_it_has_in_quotes() -> None:
    assert names_in("""agent == "a" && tool in ['b', "c\\"d"] || args.e == 1""") == {"a", "b", 'c"d'}


def told_by(page: Page) -> str:
    """All texts of a page in their order, on one line."""
    return " ".join(" ".join(unescape(re.sub(r"<[^>]+>", " ", page.html)).split()).split())


async def test_a_question_has_one_place_on_each_page(boss: httpx2.AsyncClient, desk: LocalDesk) -> None:
    await failed_deployment(desk)
    for path in ("/conversation?name=c", "/agent?name=deploy-bot", "/tool?name=deploy", "/person?name=ann"):
        ids = [attrs["id"] for _, attrs in (await open_page(boss, path)).tags if attrs.get("id")]
        assert len(ids) == len(set(ids)), path
