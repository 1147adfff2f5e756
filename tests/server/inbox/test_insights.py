"""The figures of a workspace: right, of this workspace only, for administrators only, and deaf to agents' names."""

from __future__ import annotations

import math
import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from urllib.parse import parse_qsl

import httpx2
import pytest

from handraise import Approval, Confirm, InvalidAnswer, Timeline
from handraise.desk.local_desk import LocalDesk
from handraise.model.provenance import Provenance
from handraise.model.statistics import percentile
from handraise.ports import AGES
from handraise.server import ServerContext
from handraise.server.web.inbox import insights_panels, insights_period, insights_rankings
from handraise.server.web.inbox.charts import Bar, Column, Series, bars, columns
from handraise.server.web.inbox.insights_period import SPANS
from handraise.server.web.inbox.insights_tiles import length
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.inbox.browser import Page, open_page
from tests.server.inbox.hostile import MARK, NAMES
from tests.server.inbox.test_hostile import OURS
from tests.tiers import drawn

FILTERS = {
    *("all", "since", "until", "outcome", "by", "ended_by", "channel", "tool", "agent", "group", "took"),
    *("late", "failed", "hour", "asked_hour"),
}


@pytest.fixture
def clock() -> ManualClock:
    """The last week is so by the clock on the wall, which pages go by."""
    return ManualClock(datetime.now(UTC) - timedelta(hours=20))


def figures(page: Page) -> dict[str, str]:
    """The large figures, by their names."""
    found = re.findall(r"<dt>([^<]+)</dt><dd>(?:<a [^>]+>)?([^<]+?)(?:</a>)?</dd>", page.html)
    return dict(found)


def numbers(page: Page, panel: str) -> dict[str, list[str]]:
    """The table of a panel: each row by its head."""
    [part] = re.findall(
        rf'<section[^>]*aria-labelledby="{panel}-heading">(.*?)</section>', page.html, re.DOTALL
    )
    rows = re.findall(r'<tr><th scope="row"[^>]*>([^<]*)</th>(.*?)</tr>', part)
    return {head: re.findall(r"<td>(?:<a [^>]+>)?([^<]*)(?:</a>)?</td>", cells) for head, cells in rows}


async def test_teaches_where_nothing_ended(boss: httpx2.AsyncClient) -> None:
    shown = await open_page(boss, "/insights")
    assert "Nothing ended in the last 7 days" in shown.words
    assert "As soon as people answer" in shown.words


async def test_is_for_administrators_only(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await desk.answer((await desk.post("hello", recipients=["bob"])).id, "yes", by="bob")
    refused = await ann.get("/insights")
    assert refused.status_code == 403
    assert "This page is for administrators" in refused.text
    assert "Back to what waits" in refused.text
    ann.cookies.clear()
    agent = await ann.get("/insights", headers=bearer(await issuer.agent(workspace, "deploy-bot")))
    away = await ann.get("/insights")
    assert (agent.status_code, away.status_code) == (403, 303)
    for each in (refused, agent, away):
        assert "Median" not in each.text
        assert "bob" not in each.text
    assert "Median" in (await boss.get("/insights")).text


async def test_leads_only_administrators_there(ann: httpx2.AsyncClient, boss: httpx2.AsyncClient) -> None:
    for path in ("/", "/settled"):
        assert 'href="/insights"' not in (await ann.get(path)).text
        assert 'href="/insights"' in (await boss.get(path)).text


async def test_counts_how_soon_people_answered(
    boss: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 90, 300):
        question = await desk.post("how soon?", form=Confirm())
        clock.advance(timedelta(minutes=minutes))
        await desk.answer(question.id, True, by="ann", provenance=Provenance(channel="web"))
    await desk.post("by default", timeline=Timeline(expire=timedelta(minutes=1), default="x"))
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    shown = await open_page(boss, "/insights")
    assert figures(shown) == {
        "Ended": "11",
        "Median time to answer": "5 min",
        "90th percentile": "1 h 30 min",
        "Past the promised time": "100%",
        "Decided without a person": "0%",
        "Expired or exhausted": "0",
        "Failed after approval": "0",
        "Waiting now": "0",
    }
    assert [int(row[0]) for row in numbers(shown, "times").values()] == [0, 4, 4, 0, 1, 1, 0]


async def test_counts_who_through_what_and_how_it_ended(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str, clock: ManualClock
) -> None:
    mailer = ctx.desk.scoped(workspace, asker="mail-bot")
    for by, channel, decision in (
        ("ann", "web", "approve"),
        ("ann", "slack", "approve"),
        ("ann", "web", "deny"),
        ("bob", None, "approve"),
    ):
        question = await desk.post("may I?", form=Approval.of("deploy"))
        await desk.answer(question.id, {"decision": decision}, by=by, provenance=Provenance(channel=channel))
    await mailer.decline(
        (await mailer.post("will you?")).id, by="bob", provenance=Provenance(channel="slack")
    )
    for _ in range(2):
        await mailer.send_back((await mailer.post("this?")).id, by="ann", reason="smaller")
    await mailer.withdraw((await mailer.post("never mind")).id)
    exhausted = await mailer.post("yes?", form=Confirm(), max_attempts=1)
    with suppress(InvalidAnswer):
        await mailer.answer(exhausted.id, "perhaps", by="bob")
    await mailer.post("soon?", expires_in=60)
    await mailer.post("the usual?", timeline=Timeline(expire=timedelta(minutes=1), default="x"))
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    shown = await open_page(boss, "/insights")
    assert figures(shown)["Expired or exhausted"] == "2"
    assert "of 11 that ended" in shown.words
    assert numbers(shown, "people") == {"ann": ["3"], "bob": ["1"]}
    assert numbers(shown, "channels") == {"The inbox": ["2"], "Slack": ["1"], "No channel named": ["1"]}
    assert numbers(shown, "person-rates") == {"ann": ["2 of 3 · 67%"], "bob": ["1 of 1 · 100%"]}
    assert numbers(shown, "agent-rates") == {"deploy-bot": ["3 of 4 · 75%"]}
    assert numbers(shown, "agents") == {"mail-bot": ["7"], "deploy-bot": ["4"]}
    assert [int(row[0]) for row in numbers(shown, "ways").values()] == [4, 1, 1, 2, 1, 1, 1]
    over_time = [list(map(int, row)) for row in numbers(shown, "over-time").values()]
    assert [sum(each) for each in zip(*over_time, strict=True)] == [4, 2, 3, 2]


async def test_an_approval_by_a_grant_is_nobodys_decision(boss: httpx2.AsyncClient, desk: LocalDesk) -> None:
    form = Approval.of("deploy", scopes=["once", "session"])
    first = await desk.post("may I?", form=form, conversation="c")
    await desk.answer(first.id, {"decision": "approve", "scope": "session"}, by="ann")
    again = await desk.post("may I again?", form=form, conversation="c")
    assert await desk.apply_grant(again.id) is not None
    shown = await open_page(boss, "/insights")
    assert numbers(shown, "person-rates") == {"ann": ["1 of 1 · 100%"]}
    assert numbers(shown, "people") == {"ann": ["1"]}
    assert numbers(shown, "ways")["Approved by a grant"] == ["1"]


async def test_counts_what_waits_by_age(
    boss: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    await desk.answer((await desk.post("done")).id, "yes", by="ann")
    await desk.post("old")
    clock.advance(timedelta(hours=3))
    await desk.post("young")
    shown = await open_page(boss, "/insights")
    assert figures(shown)["Waiting now"] == "2"
    assert numbers(shown, "waiting") == {
        "All": ["2"],
        "Over an hour": ["1"],
        "Over a day": ["0"],
        "Over a week": ["0"],
    }
    assert {age for age, *_ in insights_panels._AGES} <= set(AGES)  # noqa: SLF001 -- others are not counted


async def test_has_nothing_of_another_workspace(
    boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    await desk.answer((await desk.post("ours")).id, "yes", by="ann")
    other = ctx.desk.scoped("elsewhere", asker="their-bot")
    await other.answer((await other.post("theirs", recipients=["them"])).id, "yes", by="them")
    await other.post("theirs, and it waits")
    shown = await open_page(boss, "/insights")
    assert "of 1 that ended" in shown.words
    assert figures(shown)["Waiting now"] == "0"
    assert "their-bot" not in shown.html
    assert "them" not in numbers(shown, "people")


async def test_looks_back_as_far_as_it_is_told(
    boss: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    clock.advance(-timedelta(days=20))
    for days in (0, 15, 5):
        clock.advance(timedelta(days=days))
        await desk.answer((await desk.post("when?")).id, "then", by="ann")
    for path, count in {"day": 1, "week": 2, "month": 3, "year": 2, "%00": 2}.items():
        shown = await open_page(boss, f"/insights?span={path}")
        assert f"of {count} that ended" in shown.words


async def test_says_where_there_was_more_than_it_counts(
    boss: httpx2.AsyncClient, desk: LocalDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insights_period, "MAX_ENDINGS", 5)
    for count in range(1, 7):
        await desk.answer((await desk.post("one more")).id, "yes", by="ann")
        shown = await open_page(boss, "/insights")
        assert ("There is more than these figures count" in shown.words) == (count > 5)
        assert f"of {min(count, 5)} that ended" in shown.words


async def test_draws_as_many_as_can_be_told_apart(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    for n in range(12):
        desk = ctx.desk.scoped(workspace, asker=f"bot-{n:02}-{'x' * 100}")
        await desk.answer((await desk.post("hello")).id, "yes", by="ann")
    shown = await open_page(boss, "/insights")
    names = list(numbers(shown, "agents"))
    assert len(names) == 8
    assert all(len(name) <= 61 for name in names)
    assert "The 8 with the most, of 12 agents." in shown.words


@pytest.mark.parametrize("settings", [{"rate_limit": "100000/second"}])
async def test_a_hostile_name_stays_a_text_in_the_agents_box(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insights_rankings, "MOST_BARS", len(NAMES))
    names = {name[:190] for name in drawn(NAMES, 60)}
    for name in names:
        desk = ctx.desk.scoped(workspace, asker=name)
        question = await desk.post("hello", form=Approval.of("deploy"))
        await desk.answer(question.id, {"decision": "approve"}, by="ann")
    page = Page((await boss.get("/insights")).text)
    assert sum(MARK in each.lower() for each in page.agents) > len(names)
    assert not [each for each in page.ours if MARK in each.lower()]
    for tag, attrs in page.tags:
        assert tag not in (
            "iframe",
            "object",
            "embed",
            "base",
            "math",
            "video",
            "audio",
            "style",
            "image",
            "use",
        )
        if tag in ("script", "img", "link"):
            assert OURS.fullmatch(attrs.get("src") or attrs.get("href") or "")
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "srcdoc")]
        href = attrs.get("href") or ""
        if href.startswith("/settled?"):
            # A name in an address is only the value of a filter.
            assert set(dict(parse_qsl(href.partition("?")[2]))) <= FILTERS
        elif tag != "option":
            assert MARK not in " ".join(filter(None, attrs.values())).lower()
    for text in page.agents:
        unseen = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Co", "Cs", "Cn")}
        assert unseen <= {"\n", "\u200d"}


class TestCharts:
    def test_have_a_text_alternative_and_their_numbers(self) -> None:
        drawn = bars("n", "Who & what", ("Name", "Count"), [Bar(label="a<b", share=0.5, value="5")])
        assert 'role="img" aria-labelledby="n-title"' in drawn
        assert '<title id="n-title">Who &amp; what</title>' in drawn
        assert '<th scope="row">a&lt;b</th><td>5</td>' in drawn

    def test_escape_everything_and_say_what_is_an_agents(self) -> None:
        bar = Bar(label='"><script>', share=1, value="<b>", from_agent=True)
        drawn = bars("n", "<i>", ("<u>", "<s>"), [bar])
        for raw in ("<script", "<b>", "<i>", "<u>", "<s>", '""'):
            assert raw not in drawn
        assert drawn.count('data-from="agent">&#34;&gt;&lt;script&gt;<') == 2

    def test_draw_nothing_as_nothing_and_little_as_something(self) -> None:
        none, little = (
            bars("n", "t", ("a", "b"), [Bar(label="x", share=share, value="v")]) for share in (0, 0.0001)
        )
        assert 'class="main"' not in none
        assert '<rect class="main" y="1.7em" width="1%"' in little

    def test_stack_columns_within_the_plot(self) -> None:
        series = (Series("good", "main"), Series("bad", "loud"))
        drawn = columns(
            "n", "t", "Day", series, [Column(label="Mon", counts=(3, 1)), Column(label="Tue", counts=(0, 0))]
        )
        assert "<title>Mon: 3 good, 1 bad</title>" in drawn
        assert 'y="3.5em" width="27.5%" height="6em"' in drawn
        assert 'y="1.5em" width="27.5%" height="2em"' in drawn
        assert "url(#n-hatch)" in drawn
        assert "<title>Tue" not in drawn
        assert '<th scope="row">Tue</th><td>0</td><td>0</td>' in drawn

    def test_have_no_style_of_their_own(self) -> None:
        both = bars("n", "t", ("a", "b"), [Bar(label="x", share=1, value="1")]) + columns(
            "m", "t", "Day", (Series("good", "main"),), [Column(label="Mon", counts=(3,), tick="Mon")]
        )
        assert not re.search(r"style|<script|on\w+=", both)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 5.0), (0.9, 9.0), (0.91, 10.0), (0.0, 1.0), (1.0, 10.0)]
)
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert percentile([float(each) for each in range(1, 11)], share) == expected
    assert percentile([7.0], share) == 7.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (600, "10 min"),
        (3_660, "1 h 1 min"),
        (90_000, "1 d 1 h"),
        (950_400, "11 d"),
    ],
)
def test_a_length_is_short(seconds: float, said: str) -> None:
    assert length(seconds) == said


@pytest.mark.parametrize("span", SPANS, ids=lambda span: span.name)
def test_a_span_ends_with_the_step_that_is_going_on(span: insights_period.Span) -> None:
    now = datetime(2026, 3, 1, 17, 42, 5, tzinfo=UTC)
    starts = span.starts(now)
    assert len(starts) == span.steps
    assert starts[-1] <= now < starts[-1] + span.step
    assert all(later - earlier == span.step for earlier, later in pairwise(starts))
    ticks = [span.tick(start, place) for place, start in enumerate(starts)]
    assert math.ceil(span.steps / 8) <= len(list(filter(None, ticks))) <= 7
