"""The queue: what waits for a person, most urgent first, however much there is."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import httpx2
import pytest

from handraise import Approval, Confirm, Escalation, Timeline
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from handraise.server.web.inbox import search
from handraise.testing import ManualClock
from tests.server.inbox.browser import Page, Sheet, open_page


@pytest.fixture
def clock() -> ManualClock:
    """What is soon is so by the clock on the wall, which pages go by."""
    return ManualClock(datetime.now(UTC))


def asked(page: Page) -> list[str]:
    return [attrs["data-row"] or "" for _, attrs in page.tags if "data-row" in attrs]


def next_page(page: Page) -> list[str]:
    return [each.replace("&amp;", "&") for each in re.findall(r'href="([^"]+)" rel="next"', page.html)]


async def all_asked(client: httpx2.AsyncClient, path: str) -> list[str]:
    """What is on this page and on all that follow."""
    seen: list[str] = []
    for _ in range(50):
        shown = await open_page(client, path)
        seen += asked(shown)
        more = next_page(shown)
        if not more:
            return seen
        [path] = more
    raise AssertionError("there is no last page")


async def test_teaches_administrators_how_to_ask_where_nothing_waits(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient
) -> None:
    shown = await open_page(boss, "/")
    assert "Nothing is waiting for you" in shown.words
    assert 'recipients=["boss"]' in shown.words
    shown = await open_page(ann, "/")
    assert "Nothing is waiting for you" in shown.words
    assert "import handraise" not in shown.words


async def test_has_what_one_may_answer_most_urgent_first(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    old = await desk.post("old")
    await desk.post("not mine", recipients=["bob"])
    approval = await desk.post("approve", form=Approval.of("deploy"))
    harmless = await desk.post("harmless", form=Approval.of("look", risk="low"))
    risky = await desk.post("risky", form=Approval.of("drop", risk="high"))
    later = await desk.post("soon, later", expires_in=timedelta(minutes=50))
    soon = await desk.post("soon", expires_in=timedelta(minutes=30))
    escalated = await desk.post(
        "escalated",
        recipients=["bob"],
        timeline=Timeline(escalate=(Escalation(after=timedelta(minutes=1), to=("group:ops",)),)),
    )
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    shown = await open_page(ann, "/")
    assert asked(shown) == [each.id for each in (escalated, soon, later, risky, approval, harmless, old)]
    assert "(7) Waiting · Handraise" in shown.words
    for text in ("deploy-bot", "Approve deploy", "Escalated", "Expires soon", "High risk"):
        assert text in shown.words
    assert shown.words.count("High risk") == 1


async def test_is_narrowed_by_agent_and_conversation(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    one = await desk.post("one", conversation="c & d")
    other = await ctx.desk.scoped(workspace, asker="mail-bot").post("two")
    assert set(asked(await open_page(ann, "/"))) == {one.id, other.id}
    assert asked(await open_page(ann, "/?agent=mail-bot")) == [other.id]
    assert asked(await open_page(ann, "/?conversation=c+%26+d")) == [one.id]
    nothing = await open_page(ann, "/?agent=nobody")
    assert "Nothing waits that fits this filter" in nothing.words
    page = await open_page(ann, f"/questions/{one.id}")
    assert "/conversation?name=c+%26+d" in page.html


def filters(page: Page) -> Sheet:
    """The form that searches and filters; it is sent by GET."""
    [found] = [each for each in page.sheets if each.method == "get"]
    return found


async def test_is_narrowed_to_a_group_or_a_person(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    mine = await desk.post("mine", recipients=["ann", "bob"])
    ours = await desk.post("ours", recipients=["group:ops"])
    anyones = await desk.post("anyones")
    await desk.post("not ours", recipients=["group:finance"])
    assert asked(await open_page(ann, "/?to=group:ops")) == [ours.id]
    assert asked(await open_page(ann, "/?to=bob")) == [mine.id]
    assert asked(await open_page(ann, "/?to=*")) == [anyones.id]
    assert asked(await open_page(ann, "/?to=group:finance")) == []


async def test_is_narrowed_to_whom_it_was_escalated(
    ann: httpx2.AsyncClient, desk: LocalDesk, clock: ManualClock
) -> None:
    step = Escalation(after=timedelta(minutes=1), to=("group:ops",))
    question = await desk.post("escalated", recipients=["bob"], timeline=Timeline(escalate=(step,)))
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    assert asked(await open_page(ann, "/?to=group:ops")) == [question.id]


async def test_filters_can_be_combined_and_changed_by_the_form(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str
) -> None:
    both = await desk.post("both", conversation="release", recipients=["ann"])
    await desk.post("only the agent", conversation="other")
    await ctx.desk.scoped(workspace, asker="mail-bot").post("only the conversation", conversation="release")
    shown = await open_page(ann, "/?agent=deploy-bot")
    form = filters(shown)
    assert {each.name: each.value for each in form.inputs} == {
        "q": "",
        "agent": "deploy-bot",
        "conversation": "",
        "to": "",
        "kind": "",
        "risk": "",
        "expires": "",
        "age": "",
        "sort": "",
    }
    form.fill("conversation", "release")
    narrowed = await open_page(ann, f"{form.action}?{form.body()}")
    assert asked(narrowed) == [both.id]
    # What the filter leaves out can still be chosen, and each filter can be taken away by itself.
    assert 'value="mail-bot"' in narrowed.html
    assert 'href="/?conversation=release"' in narrowed.html
    assert 'href="/?agent=deploy-bot"' in narrowed.html
    filters(narrowed).fill("q", "nothing like that")
    nothing = await open_page(ann, f"/?{filters(narrowed).body()}")
    assert asked(nothing) == []
    assert {each.name: each.value for each in filters(nothing).inputs}["conversation"] == "release"


@pytest.mark.parametrize(
    "words",
    ["ROLLOUT", "canary rollout", "deploy-bot", "Release strasse", "release-4.2 STRAẞE", "database.migrate"],
)
async def test_is_searched_in_any_case_for_all_the_words(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext, workspace: str, words: str
) -> None:
    found = await desk.post(
        "A **Canary** or a rollout in the Straße?",
        form=Approval.of("database.migrate"),
        conversation="Release-4.2",
    )
    other = ctx.desk.scoped(workspace, asker="mail-bot")
    await other.post("A canary in a mine: rol lout", conversation="other")
    assert asked(await open_page(ann, f"/?{urlencode({'q': words})}")) == [found.id]


async def test_a_search_finds_only_what_one_may_answer(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    secret = await desk.post("the secret plan", recipients=["bob"])
    await ctx.desk.scoped("elsewhere", asker="deploy-bot").post("the secret plan")
    for path in ("/?q=secret", "/?q=secret&all=1", "/?q=secret&to=bob", "/?to=bob&all=1"):
        assert "secret plan" not in (await ann.get(path)).text
        assert "bob" not in (await open_page(ann, path)).ours
    assert asked(await open_page(boss, "/?q=secret&all=1")) == [secret.id]


async def test_a_search_says_how_far_it_looked_and_goes_on_from_there(
    ann: httpx2.AsyncClient, desk: LocalDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "READS", 6)
    for n in range(640):
        await desk.post(f"number {n}", form=Confirm())
    last = await desk.post("the needle", form=Confirm())
    shown = await open_page(ann, "/?q=needle")
    assert asked(shown) == []
    assert "Nothing fits so far" in shown.words
    assert "600 questions were looked at" in shown.words
    [more] = next_page(shown)
    assert asked(await open_page(ann, more)) == [last.id]


async def test_a_search_shows_everything_that_fits_once(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    fitting = set()
    for n in range(700):
        question = await desk.post(f"number {n} {'odd' if n % 2 else 'even'}", form=Confirm())
        fitting |= {question.id} if n % 2 else set()
    seen = await all_asked(ann, "/?q=odd")
    assert (len(seen), set(seen)) == (350, fitting)


async def test_of_an_administrator_can_be_the_whole_workspace(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    question = await desk.post("for ann", recipients=["ann"])
    assert asked(await open_page(boss, "/")) == []
    assert asked(await open_page(boss, "/?all=1")) == [question.id]
    assert asked(await open_page(ann, "/?all=1")) == [question.id]
    await desk.post("for bob", recipients=["bob"])
    assert len(asked(await open_page(boss, "/?all=1"))) == 2
    assert len(asked(await open_page(ann, "/?all=1"))) == 1


@pytest.mark.parametrize(
    "odd",
    [
        "page=0",
        "page=-1",
        "page=x",
        "page=99999",
        "after=nowhere",
        "after=%00",
        "all=%FF",
        "q=%00%FF",
        "to=%00",
        "q=" + "x" * 999,
        "done=%00",
        "done=" + "x" * 999,
    ],
)
async def test_whatever_stands_in_its_address_is_a_page(ann: httpx2.AsyncClient, odd: str) -> None:
    assert (await ann.get(f"/?{odd}")).status_code == 200


async def test_pages_through_everything_once(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    posted = {(await desk.post(f"number {n}", form=Confirm())).id for n in range(730)}
    seen = await all_asked(ann, "/")
    assert (len(seen), set(seen)) == (730, posted)


@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_the_most_urgent_is_on_the_first_page_however_many_wait(
    ann: httpx2.AsyncClient, desk: LocalDesk, ctx: ServerContext
) -> None:
    await asyncio.gather(*(desk.post(f"number {n}", form=Confirm()) for n in range(700)))
    other = ctx.desk.scoped(desk.workspace, asker="careful-bot")
    pay = await other.post("Pay?", form=Approval.of("pay", {"amount": 1}, risk="high"))
    soon = await other.post("Quick?", expires_in=600)
    shown = asked(await open_page(ann, "/"))
    assert (len(shown), shown[:2]) == (50, [soon.id, pay.id])


async def test_more_than_twenty_equal_questions_are_one_row_that_opens(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    for _ in range(20):
        await desk.post("May I?", form=Confirm())
    other = await desk.post("Something else?")
    assert len(asked(await open_page(ann, "/"))) == 21
    again = [(await desk.post("May I?", form=Confirm())).id for _ in range(380)]
    shown = await open_page(ann, "/")
    assert len(asked(shown)) == 2
    assert asked(shown)[1] == other.id
    assert "401 questions" in shown.words
    assert "and 399 more just like this one" in shown.words
    [each] = re.findall(r'href="([^"]*each=1[^"]*)"', shown.html)
    seen = await all_asked(ann, each.replace("&amp;", "&"))
    assert len(seen) == 401
    assert set(again) <= set(seen)


@pytest.mark.proof
@pytest.mark.slow("measures how long a page takes")
@pytest.mark.parametrize("settings", [{"pending_quota": 0}])
@pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
async def test_is_quick_and_small_with_ten_thousand_waiting(
    ann: httpx2.AsyncClient, desk: LocalDesk, store: str
) -> None:
    prompt = "Shall I roll the release out to the next region, or wait for the numbers of today? " * 5
    for start in range(0, 10_000, 1_000):
        await asyncio.gather(*(desk.post(f"{start + n} {prompt}", choices=["a", "b"]) for n in range(1_000)))
    shown = await ann.get("/")
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        shown = await ann.get("/")
        spent.append(time.perf_counter() - began)
        assert shown.status_code == 200
        assert len(shown.content) < 150_000
    print(f"{store.partition(':')[0]}: {sorted(spent)[2] * 1000:.0f} ms, {len(shown.content) / 1000:.0f} KB")
    assert min(spent) < 0.3
