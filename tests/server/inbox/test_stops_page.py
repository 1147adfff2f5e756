"""The page of stops, and what people see of one: on the question's page, in the inbox, and when they approve anyway."""

from __future__ import annotations

import httpx2
import pytest

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from handraise.testing.promises import promise
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import FORM, Page, open_page, send

PAY = Approval.of("pay", {"amount": 1})
SURE = ("sure", "true")


@promise("P18")
async def test_an_administrator_stops_and_resumes_after_a_look_at_what_it_means(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    page = await open_page(boss, "/stops")
    assert "Nothing. Agents can ask, and people can approve." in page.words
    [form] = [each for each in page.sheets if each.action == "/stops"]
    form.fill("tool", "pay")
    form.fill("why", "wrong account")
    asked = await send(boss, form)
    assert asked.status_code == 200
    assert await ctx.policies.stops(workspace) == [], "nothing is stopped before it is confirmed"
    [confirm] = [each for each in Page(asked.text).sheets if each.action == "/stops"]
    done = await send(boss, confirm, SURE)
    assert (done.status_code, done.headers["location"]) == (303, "/stops")
    [stop] = await ctx.policies.stops(workspace)
    assert (stop.agent, stop.tool, stop.why, stop.by) == (None, "pay", "wrong account", "boss")
    listed = await open_page(boss, "/stops")
    assert "The tool pay is stopped" in listed.words
    [resume] = [each for each in listed.sheets if each.action.endswith("/end")]
    asked = await send(boss, resume)
    assert len(await ctx.policies.stops(workspace)) == 1, "nothing is resumed before it is confirmed"
    [confirm] = [each for each in Page(asked.text).sheets if each.action == resume.action]
    assert (await send(boss, confirm, SURE)).status_code == 303
    assert await ctx.policies.stops(workspace) == []


async def test_what_a_stop_comes_to_is_said_before_it_begins(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, desk: LocalDesk
) -> None:
    for _ in range(2):
        await desk.post("May I?", form=PAY)
    [form] = [each for each in (await open_page(boss, "/stops")).sheets if each.action == "/stops"]
    form.fill("why", "wrong account")
    for agent, tool, said in (
        (desk.asker, "", "It stops 2 pending questions."),
        ("", "pay", "It stops 2 pending questions."),
        ("", "refund", "It stops 0 pending questions."),
        ("nobody-has-this", "", "No agent here is called nobody-has-this."),
    ):
        form.fill("agent", agent)
        form.fill("tool", tool)
        assert said in Page((await send(boss, form)).text).words, (agent, tool)
    form.fill("agent", "")
    form.fill("tool", "")
    assert (await send(boss, form)).status_code == 422, "an empty form is not the whole workspace"
    form.tick("everything", "true")
    assert "Everything in this workspace is stopped" in Page((await send(boss, form)).text).words
    assert await ctx.policies.stops(workspace) == []


async def test_nothing_is_stopped_without_a_reason(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    [form] = [each for each in (await open_page(boss, "/stops")).sheets if each.action == "/stops"]
    assert (await send(boss, form)).status_code == 422
    assert await ctx.policies.stops(workspace) == []


async def test_only_administrators_see_it_and_only_from_a_page_of_this_server(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    assert (await ann.get("/stops")).status_code == 403
    assert 'href="/stops"' not in (await ann.get("/")).text
    assert 'href="/stops"' in (await boss.get("/")).text
    body = "why=w&sure=true"
    assert (await ann.post("/stops", content=body, headers=ORIGIN | FORM)).status_code == 403
    elsewhere = FORM | {"sec-fetch-site": "cross-site", "origin": "https://evil.example.com"}
    assert (await boss.post("/stops", content=body, headers=elsewhere)).status_code == 403
    assert await ctx.policies.stops(workspace) == []


@promise("P18")
@pytest.mark.parametrize("scope", [{}, {"agent": "deploy-bot"}, {"tool": "pay"}], ids=str)
async def test_the_page_of_a_stopped_question_says_so_and_offers_no_approval(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str, scope: dict[str, str]
) -> None:
    question = await desk.post("Pay?", form=PAY, recipients=["ann"])
    before = await open_page(ann, f"/questions/{question.id}")
    assert "is stopped" not in before.words
    await ctx.policies.stop(workspace, **scope, why="<b>wrong</b> account", by="boss")
    page = await open_page(ann, f"/questions/{question.id}")
    assert "It cannot be approved until an administrator resumes it. You can deny it." in page.words
    assert "by boss" in page.words
    assert "<b>wrong" not in page.html
    assert 'value="approve" data-yes disabled' in page.html
    assert "is stopped by boss" in (await open_page(ann, "/")).words
    # Somebody whose page is older is told, and nothing is decided.
    [form] = [each for each in before.sheets if ("decision", "approve") in each.buttons]
    late = await send(ann, form, ("decision", "approve"))
    assert late.status_code == 423
    assert "is stopped" in late.text
    assert (await desk.get(question.id)).outcome is None
    assert (await send(ann, form, ("decision", "deny"))).status_code == 303
