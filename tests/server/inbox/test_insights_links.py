"""Every figure of the insights opens its questions, as many as it counts; filters, the period before, and the CSV file."""

from __future__ import annotations

import csv
import html
import io
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise import Approval, Confirm, Escalation, InvalidAnswer, Responder, Timeline
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.model.lookalike_names import misleading_tool
from handraise.model.provenance import Provenance
from handraise.presentation.csv_cells import safe_cell
from handraise.server import ServerContext
from handraise.server.web.inbox import insights_period
from handraise.server.web.inbox.insights_csv import HEADS
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.inbox.browser import Page, open_page
from tests.server.inbox.test_insights import figures, numbers

OPS = frozenset({"ops"})
_LINK = re.compile(r'<a href="(/settled\?[^"]*|/\?all[^"]*)"(?: aria-label="[^"]*: ([^"]*)")?>([^<]*)')


@pytest.fixture
def clock() -> ManualClock:
    """The last week is so by the clock on the wall, which pages go by."""
    return ManualClock(datetime.now(UTC) - timedelta(hours=20))


def address(href: str) -> str:
    return html.unescape(href)


def links(page: Page) -> dict[str, int]:
    """The addresses behind the figures, with the numbers of questions that they stand for."""
    found: dict[str, int] = {}
    for href, words, text in _LINK.findall(page.html):
        counts = re.findall(r"\d+", words.replace(",", "")) if words else re.findall(r"\d+", text)[:1]
        if counts and "%" not in text.partition("·")[0] and not re.search(r"\d (s|min|h|d)\b", text):
            found[address(href)] = sum(map(int, counts))
    return found


async def rows(browser: httpx2.AsyncClient, path: str) -> int:
    """How many questions a list has, on all of its pages."""
    count = 0
    for _ in range(20):
        shown = (await browser.get(path)).text
        count += len(re.findall(r"data-settled=|data-row=", shown))
        more = re.findall(r'href="([^"]+)" rel="next"', shown)
        if not more:
            return count
        path = address(more[0])
    raise AssertionError("there is no end")


async def fill(ctx: ServerContext, workspace: str, clock: ManualClock) -> None:
    """Some of every way to end, of two agents, asked of groups and of people."""
    promised = Timeline(
        remind=timedelta(minutes=30), escalate=Escalation(after=timedelta(hours=1), to=["boss"])
    )
    for asker, tool in (("deploy-bot", "deploy"), ("mail-bot", "send&mail")):
        desk = ctx.desk.scoped(workspace, asker=asker)
        form = Approval.of(tool, {"a": 1}, scopes=("once", "always"))
        risky = Approval.of(tool, {"a": 2}, risk="high")
        for number, (decision, minutes) in enumerate((("approve", 2), ("deny", 45), ("approve", 90))):
            question = await desk.post("May I?", form=risky, recipients=["group:ops"], timeline=promised)
            clock.advance(timedelta(minutes=minutes))
            channel = (None, "web", "slack")[number]
            by = Responder(("ann", "bob")[number % 2], OPS)
            await desk.answer(
                question.id, {"decision": decision}, by=by, provenance=Provenance(channel=channel)
            )
            if number == 2:
                await desk.consume_approval(question.id)
                await desk.report(question.id, ok=False, text="no disk")
        first, again = [await desk.post("May I often?", form=form) for _ in range(2)]
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ann")
        await desk.apply_grant(again.id)
        voted = await desk.post("Both?", form=Confirm(), quorum=2, recipients=["ann", "bob"])
        for name in ("ann", "bob"):
            await desk.answer(voted.id, True, by=name)
        await desk.decline((await desk.post("Will you?")).id, by="bob")
        await desk.send_back((await desk.post("This?")).id, by="ann", reason="smaller")
        await desk.withdraw((await desk.post("Never mind")).id)
        with suppress(InvalidAnswer):
            await desk.answer((await desk.post("?", form=Confirm(), max_attempts=1)).id, "x", by="bob")
        await desk.post("Soon?", expires_in=60)
        await desk.post("The usual?", timeline=Timeline(expire=timedelta(minutes=1), default="x"))
        await desk.post("It waits")
        clock.advance(timedelta(hours=2))
        await desk.run_due()


@pytest.mark.parametrize("span", ["day", "week"])
async def test_a_figure_leads_to_as_many_questions_as_it_counts(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock, span: str
) -> None:
    await fill(ctx, workspace, clock)
    shown = await open_page(boss, f"/insights?span={span}")
    found = links(shown)
    for wanted in (
        "ended_by=people",
        "ended_by=nobody",
        "ended_by=missed",
        "ended_by=person&took=60-300",
        "late=1&group=ops",
        "channel=-",
        "channel=slack",
        "by=ann",
        "agent=mail-bot",
        "tool=send%26mail",
        "outcome=approved",
        "failed=1",
        "asked_hour=",
        "&hour=",
        "age=1h",
    ):
        assert any(wanted in each for each in found), wanted
    assert len(found) > 40
    assert {path: await rows(boss, path) for path in found} == found
    assert figures(shown)["Ended"] == "24"
    assert figures(shown)["Failed after approval"] == "2"
    assert "8 of 10" in shown.words  # is what ended past a promised time
    assert figures(shown)["Decided without a person"] == "8%"


async def test_only_who_may_see_the_whole_workspace_gets_all_of_it_behind_a_figure(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    secret = await desk.post("the secret of bob", recipients=["bob"])
    await desk.answer(secret.id, "done", by="bob")
    [path] = [each for each in links(await open_page(boss, "/insights")) if "by=bob" in each]
    assert "the secret of bob" in (await boss.get(path)).text
    assert "the secret of bob" not in (await ann.get(path)).text


async def test_filters_narrow_every_figure_and_stay_in_every_link(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    await fill(ctx, workspace, clock)
    for query, ended in (
        ("agent=mail-bot", 12),
        ("group=ops", 6),
        ("tool=deploy", 5),
        ("risk=high", 6),
        ("risk=medium", 4),
        ("agent=mail-bot&group=ops&tool=send%26mail&risk=high", 3),
        ("agent=nobody", 0),
        ("risk=none&agent=%00&group=", 24),
    ):
        shown = await open_page(boss, f"/insights?{query}")
        assert figures(shown)["Ended"] == str(ended), query
    query = "group=ops&agent=mail-bot&tool=send%26mail&risk=high"
    shown = await open_page(boss, f"/insights?span=day&{query}")
    found = links(shown)
    assert all(query in path for path in found if path.startswith("/settled"))
    assert {path: await rows(boss, path) for path in found} == found
    assert f"/insights?span=month&{query}" in address(shown.html)
    assert f"/insights.csv?span=day&{query}" in address(shown.html)
    assert '<option value="mail-bot" selected data-from="agent">mail-bot</option>' in shown.html
    assert '<option value="ops" selected' in shown.html
    assert "Nothing ended that fits this filter" in (await open_page(boss, "/insights?agent=nobody")).words


async def test_the_period_before_is_in_grey_and_leads_to_its_questions(
    boss: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    clock.advance(timedelta(hours=20) - timedelta(days=7, minutes=10))
    for _ in range(3):
        await desk.answer((await desk.post("then")).id, "yes", by="ann")
    # Later than now on that day, so it is no part of what is compared.
    clock.advance(timedelta(minutes=11))
    await desk.answer((await desk.post("a little later")).id, "yes", by="ann")
    clock.advance(timedelta(days=7) - timedelta(minutes=2))
    for _ in range(2):
        await desk.answer((await desk.post("now")).id, "yes", by="ann")
    shown = await open_page(boss, "/insights")
    [(href, text)] = re.findall(
        r'<dd>.*?>2</a></dd>.*?<dd class="quiet was"><a href="([^"]+)">([^<]+)', shown.html
    )
    assert text == "was 3"
    assert await rows(boss, address(href)) == 3
    assert sum(int(row[-1]) for row in numbers(shown, "over-time").values()) == 3
    assert '<rect class="before"' in shown.html
    assert "the 7 days before" in shown.words


async def test_the_period_before_is_left_out_if_not_all_of_it_was_read(
    boss: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insights_period, "MAX_ENDINGS", 3)
    clock.advance(timedelta(hours=19) - timedelta(days=7))
    for days in (0, 0, 7, 0):
        clock.advance(timedelta(days=days))
        await desk.answer((await desk.post("when?")).id, "then", by="ann")
    shown = await open_page(boss, "/insights")
    assert figures(shown)["Ended"] == "2"
    assert not re.search(r">was \d", shown.html)
    assert "There is more than these figures count" not in shown.words
    # And what is counted of a period that is cut is what its links show.
    for _ in range(3):
        clock.advance(timedelta(minutes=1))
        await desk.answer((await desk.post("more")).id, "then", by="ann")
    cut = await open_page(boss, "/insights")
    assert "There is more than these figures count" in cut.words
    found = links(cut)
    assert max(found.values()) == 3
    assert {path: await rows(boss, path) for path in found} == found


async def test_hours_are_those_of_the_reader(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    await ctx.directory.set_preferences(workspace, "boss", language=None, time_zone="Asia/Kolkata")
    asked = await desk.post("when?")
    clock.advance(timedelta(hours=2))
    await desk.answer(asked.id, "then", by="ann")
    shown = await open_page(boss, "/insights")
    began = (clock.now() - timedelta(hours=2) + timedelta(hours=5, minutes=30)).hour
    loads = {hour: row for hour, row in numbers(shown, "hours").items() if row != ["0", "0"]}
    assert loads == {f"{began:02}:00": ["1", "0"], f"{(began + 2) % 24:02}:00": ["0", "1"]}
    assert "Hours in IST." in shown.words
    assert await rows(boss, f"/settled?all=1&asked_hour={began}") == 1
    assert await rows(boss, f"/settled?all=1&asked_hour={(began + 1) % 24}") == 0


async def test_people_have_their_names(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    for person, name in (("a1", "Ana Ruiz"), ("b1", "Bo"), ("b2", "Bo"), ("x1", "<b>Xu")):
        await ctx.directory.put_person(workspace, person, name=name, email=None, role=Role.MEMBER)
        await desk.answer((await desk.post("who?")).id, "me", by=person)
    await desk.answer((await desk.post("who?")).id, "me", by="gone")
    shown = await open_page(boss, "/insights")
    assert set(numbers(shown, "people")) == {"Ana Ruiz", "Bo (b1)", "Bo (b2)", "&lt;b&gt;Xu", "gone"}
    assert any("by=a1" in path for path in links(shown))


async def test_the_file_has_one_line_for_each_question_and_nothing_of_what_was_said(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    await fill(ctx, workspace, clock)
    other = ctx.desk.scoped("elsewhere", asker="their-bot")
    await other.answer((await other.post("theirs")).id, "yes", by="them")
    answer = await boss.get("/insights.csv?span=day")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert re.fullmatch(
        r'attachment; filename="handraise-day-[0-9TZ]+\.csv"', answer.headers["content-disposition"]
    )
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert tuple(lines[0]) == HEADS
    assert len(lines) == len({line["question"] for line in lines}) == 24
    for said in ("May I", "smaller", "no disk", "their-bot", "them"):
        assert said not in answer.text
    [failed, _] = [line for line in lines if line["failed"] == "yes"]
    assert {
        name: failed[name] for name in ("seconds", "status", "source", "by", "channel", "agent", "tool")
    } == {
        "seconds": "5400",
        "status": "answered",
        "source": "person",
        "by": "ann",
        "channel": "slack",
        "agent": "mail-bot",
        "tool": "send&mail",
    }
    assert (failed["risk"], failed["groups"], failed["approved"], failed["late"]) == (
        "high",
        "ops",
        "yes",
        "yes",
    )
    assert datetime.fromisoformat(failed["settled"]) - datetime.fromisoformat(failed["asked"]) == timedelta(
        minutes=90
    )
    assert sorted({line["voters"] for line in lines}) == ["", "ann, bob"]
    narrowed = (await boss.get("/insights.csv?agent=mail-bot&risk=high&group=ops&tool=send%26mail")).text
    assert len(list(csv.DictReader(io.StringIO(narrowed)))) == 3


async def test_the_file_is_for_administrators_only(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await desk.answer((await desk.post("hello", recipients=["bob"])).id, "yes", by="bob")
    refused = await ann.get("/insights.csv")
    ann.cookies.clear()
    agent = await ann.get("/insights.csv", headers=bearer(await issuer.agent(workspace, "deploy-bot")))
    away = await ann.get("/insights.csv")
    assert [each.status_code for each in (refused, agent, away)] == [403, 403, 303]
    assert not [each for each in (refused, agent, away) if "bob" in each.text]
    assert "bob" in (await boss.get("/insights.csv")).text


async def test_no_name_in_the_file_becomes_a_formula(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)", ' =HYPERLINK("http://x","y")', 'a,"b']
    for name in names:
        desk = ctx.desk.scoped(workspace, asker=name)
        tool = "tool" if misleading_tool(name) else name
        question = await desk.post("hello", form=Approval.of(tool, {}), recipients=[f"group:{name.strip()}"])
        await desk.answer(
            question.id,
            "approve",
            by=Responder(f"{name.strip()}!", frozenset({name.strip()})),
            provenance=Provenance(channel=name),
        )
    lines = list(csv.DictReader(io.StringIO((await boss.get("/insights.csv")).text)))
    assert len(lines) == len(names)
    for line in lines:
        for cell in line.values():
            assert not cell.lstrip().startswith(("=", "+", "-", "@")), cell
    assert {line["agent"] for line in lines} == {*(f"'{name}" for name in names[:-1]), names[-1]}


def test_a_cell_of_a_spreadsheet_that_splits_at_semicolons_is_a_text_too() -> None:
    assert safe_cell('x;=HYPERLINK("evil")') == 'x;\'=HYPERLINK("evil")'
    assert safe_cell("\uff1d1") == "'\uff1d1"
    assert safe_cell("a-b, c") == "a-b, c"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra", "\na", "  =1"])
def test_a_cell_that_a_spreadsheet_would_run_is_a_text(text: str) -> None:
    assert safe_cell(text) == f"'{text}"
    assert safe_cell(f"a{text}") == f"a{text}"


async def test_whatever_stands_in_an_address_is_a_page(boss: httpx2.AsyncClient, desk: LocalDesk) -> None:
    await desk.answer((await desk.post("one", form=Confirm())).id, True, by="ann")
    for odd in (
        *(
            "took=-",
            "took=9-1-2",
            "took=x-",
            "took=%D9%A3-",
            f"took={'9' * 30}-",
            "hour=24",
            "hour=-1",
            "hour=x",
        ),
        *(
            "asked_hour=%C2%B2",
            "ended_by=x",
            "risk=none",
            "since=2026-01-01T00:00",
            "since=0001-01-01T00:00Z",
        ),
        *("tool=%00", "group=%00", "channel=%00", "by=%00"),
    ):
        assert await rows(boss, f"/settled?all=1&{odd}") == 1, odd
        for path in ("/insights", "/insights.csv"):
            assert (await boss.get(f"{path}?{odd}&agent=%00&span=%00")).status_code == 200, odd
