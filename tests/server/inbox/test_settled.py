"""What ended: who answered what, when and through what, for whoever may see it and nobody else."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise import Approval, Choice, Confirm, InvalidAnswer, Responder, Timeline
from handraise.desk.local_desk import LocalDesk
from handraise.model.lookalike_names import misleading_tool
from handraise.model.provenance import Provenance
from handraise.server import ServerContext
from handraise.server.web.inbox import search
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.inbox.browser import Page, open_page
from tests.server.inbox.hostile import GROUPS, NAMES, TEXTS
from tests.server.inbox.test_hostile import check
from tests.tiers import drawn

OPS = Responder("bob", frozenset({"ops"}))


@pytest.fixture
def clock() -> ManualClock:
    """What is today is so by the clock on the wall, which pages go by; at noon, so that a minute is no other day."""
    return ManualClock(datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0))


def ended(page: Page) -> list[str]:
    return [attrs["data-settled"] or "" for _, attrs in page.tags if "data-settled" in attrs]


async def test_teaches_where_nothing_is_settled(ann: httpx2.AsyncClient) -> None:
    shown = await open_page(ann, "/settled")
    assert "Nothing is settled yet" in shown.words
    assert "A question ends once" in shown.words


async def test_says_who_answered_what_and_through_what(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    question = await desk.post("Which way?", form=Choice.of("Canary", "Rolling"), conversation="release 4.2")
    clock.advance(timedelta(minutes=7))
    await desk.answer(question.id, "Canary", by="bob", provenance=Provenance(channel="slack"))
    shown = await open_page(ann, "/settled")
    assert ended(shown) == [question.id]
    assert f'href="/questions/{question.id}?from=%2Fsettled"' in shown.html
    for text in (
        "Which way?",
        "deploy-bot",
        "Answered by bob through Slack",
        "after 7 minutes",
        "12:07",
        "Today",
    ):
        assert text in shown.words
    assert "Canary" in shown.agents
    assert "release 4.2" in shown.agents


async def test_says_of_every_ending_how_it_came_about(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    approval = await desk.post("May I?", form=Approval.of("deploy"))
    await desk.answer(
        approval.id,
        {"decision": "deny", "reason": "not today"},
        by="ann",
        provenance=Provenance(channel="web"),
    )
    declined = await desk.post("Will you?")
    await desk.decline(
        declined.id, by="bob", reason="not mine to say", provenance=Provenance(channel="email")
    )
    withdrawn = await desk.post("Never mind")
    await desk.withdraw(withdrawn.id, reason="it solved itself")
    exhausted = await desk.post("Yes?", form=Confirm(), max_attempts=1)
    with suppress(InvalidAnswer):
        await desk.answer(exhausted.id, "perhaps", by="bob")
    await desk.post("Soon?", expires_in=60)
    usual = Timeline(expire=timedelta(minutes=1), default="the usual")
    await desk.post("What shall it be?", timeline=usual)
    clock.advance(timedelta(minutes=2))
    shown = await open_page(ann, "/settled")
    assert len(ended(shown)) == 6
    for text in (
        "Denied by you through the inbox",
        "May I? not today",
        "Declined by bob through e-mail",
        "not mine to say",
        "Withdrawn by the agent",
        "it solved itself",
        "Closed after too many answers that did not fit, the last by bob",
        "Exhausted",
        "Expired without an answer",
        "Expired",
        "the agent's default was taken",
        "the usual",
    ):
        assert text in shown.words


async def test_is_newest_first_and_by_day(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    clock.advance(timedelta(days=-9))
    ids = []
    for days in (0, 8, 1):
        clock.advance(timedelta(days=days))
        question = await desk.post("again", form=Confirm())
        await desk.answer(question.id, True, by="ann")
        ids.append(question.id)
    shown = await open_page(ann, "/settled")
    assert ended(shown) == ids[::-1]
    headings = re.findall(r"<h2[^>]*><time[^>]*>([^<]+)</time>", shown.html)
    assert headings[:2] == ["Today", "Yesterday"]
    assert re.fullmatch(r"\w+day, \d+ \w+|\d+ \w+ \d{4}", headings[2])


async def test_is_only_what_one_may_see(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    mine = await desk.post("for ops", recipients=["group:ops"])
    others = await desk.post("secret of bob", recipients=["bob"])
    for each in (mine, others):
        await desk.answer(each.id, "done", by=OPS)
    far = ctx.desk.scoped("elsewhere", asker="deploy-bot")
    await far.answer((await far.post("secret of another workspace")).id, "done", by="ann")
    for path in (
        "/settled",
        "/settled?all=1",
        "/settled?q=secret",
        "/settled?to=bob",
        "/settled?q=bob&all=1",
    ):
        shown = await open_page(ann, path)
        assert set(ended(shown)) <= {mine.id}
        assert "secret" not in shown.html.replace("q=secret", "").replace('value="secret"', "").replace(
            'data-from="agent">secret<', ""
        )
    assert ended(await open_page(boss, "/settled")) == []
    assert ended(await open_page(boss, "/settled?all=1")) == [others.id, mine.id]


async def test_is_for_people_who_are_signed_in(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, desk: LocalDesk
) -> None:
    await desk.answer((await desk.post("secret")).id, "done", by="ann")
    away = await client.get("/settled")
    assert (away.status_code, away.headers["location"].partition("?")[0]) == (303, "/sign-in")
    agent = await client.get("/settled", headers=bearer(await issuer.agent(workspace, "deploy-bot")))
    assert agent.status_code == 403
    assert "secret" not in agent.text


async def test_is_narrowed_and_searched_as_the_queue_is(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    one = await desk.post("Roll out?", conversation="release", recipients=["group:ops"])
    two = await ctx.desk.scoped(workspace, asker="mail-bot").post("Send it?")
    await desk.post("Roll out what waits?")
    for each, by in ((one, OPS), (two, Responder("ann"))):
        await desk.answer(each.id, "done", by=by)
    for query, found in {
        "agent=mail-bot": [two.id],
        "conversation=release": [one.id],
        "to=group:ops": [one.id],
        "to=*": [two.id],
        "q=ROLL": [one.id],
        "q=bob": [one.id],
        "q=send+mail-bot": [two.id],
        "agent=mail-bot&q=roll": [],
    }.items():
        assert ended(await open_page(ann, f"/settled?{query}")) == found, query
    nothing = await open_page(ann, "/settled?agent=mail-bot&q=roll")
    assert "Nothing is settled that fits this search" in nothing.words
    assert 'href="/?q=roll&amp;agent=mail-bot"' in nothing.html


async def test_a_search_says_how_far_it_looked_and_goes_on_from_there(
    ann: httpx2.AsyncClient, desk: LocalDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "READS", 6)
    first = await desk.post("the needle", form=Confirm())
    await desk.answer(first.id, True, by="ann")
    for n in range(640):
        await desk.answer((await desk.post(f"number {n}", form=Confirm())).id, True, by="ann")
    shown = await open_page(ann, "/settled?q=needle")
    assert ended(shown) == []
    assert "600 questions were looked at" in shown.words
    [more] = re.findall(r'href="([^"]+)" rel="next"', shown.html)
    assert ended(await open_page(ann, more.replace("&amp;", "&"))) == [first.id]


async def test_pages_through_everything_once(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    settled = []
    for n in range(430):
        question = await desk.post(f"number {n}", form=Confirm())
        await desk.answer(question.id, True, by="ann")
        settled.append(question.id)
    seen: list[str] = []
    path = "/settled"
    for _ in range(20):
        shown = await ann.get(path)
        assert len(shown.content) < 150_000
        seen += ended(Page(shown.text))
        found = re.findall(r'href="([^"]+)" rel="next"', shown.text)
        if not found:
            break
        path = found[0].replace("&amp;", "&")
    assert seen == settled[::-1]


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)
async def test_whatever_stands_in_its_address_is_a_page(ann: httpx2.AsyncClient) -> None:
    for odd in ("after=nowhere", "after=%00", "after=1", "page=99", "page=x", "q=%00", "to=%FF"):
        assert (await ann.get(f"/settled?{odd}")).status_code == 200, odd


@pytest.mark.parametrize("settings", [{"rate_limit": "100000/second"}])
async def test_a_hostile_text_stays_a_text(
    ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for text, name, group in drawn(list(zip(TEXTS, NAMES, GROUPS, strict=True))[::3], 10):
        desk = ctx.desk.scoped(workspace, asker=name[:190])
        to = ["ann", group]
        chosen = await desk.post(text, choices=[name, "b"], conversation=name, recipients=to)
        await desk.answer(chosen.id, name, by="ann", provenance=Provenance(channel="web"))
        taken_back = await desk.post(
            text,
            form=Approval.of("tool" if misleading_tool(name) else name),
            conversation=name,
            recipients=to,
        )
        await desk.withdraw(taken_back.id, reason=text[:1000])
        check((await ann.get("/settled")).text)
    check((await ann.get("/settled?q=zqxj")).text)


async def test_is_filtered_by_day_outcome_and_person_and_says_so(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    made = {}
    for name, by in (("first", "ann"), ("second", "bob"), ("third", "ann")):
        made[name] = await desk.post(f"The {name}?", form=Approval.of("pay", {"amount": 3, "to": "x"}))
        await desk.answer(made[name].id, "deny" if name == "second" else "approve", by=by)
        clock.advance(timedelta(days=1))
    await desk.consume_approval(made["first"].id)
    days = [(clock.now() - timedelta(days=n)).date().isoformat() for n in (3, 2, 1)]
    for query, wanted in (
        ("outcome=approved", ["third", "first"]),
        ("outcome=denied", ["second"]),
        ("by=bob", ["second"]),
        (f"since={days[1]}", ["third", "second"]),
        (f"until={days[1]}", ["second", "first"]),
        (f"since={days[1]}&until={days[1]}&by=ann", []),
        ("outcome=nonsense&since=yesterday&until=9999-99-99&by=%00", ["third", "second", "first"]),
        ("since=0001-01-01&until=9999-12-31", ["third", "second", "first"]),
    ):
        shown = await open_page(ann, f"/settled?{query}")
        assert ended(shown) == [made[each].id for each in wanted], query
    shown = await open_page(ann, f"/settled?outcome=approved&since={days[0]}&until={days[0]}&by=ann")
    assert "pay to: x, amount: 3" in shown.agents
    assert "Taken to execute it" in shown.words
    # The way back from a question, and the next page, keep the filters; the other list does not get them.
    assert "from=%2Fsettled%3Foutcome" in shown.html
    empty = await open_page(ann, "/settled?outcome=expired")
    assert "Nothing is settled that fits this filter" in empty.words
    assert 'href="/"' in empty.html
