"""What came of an answer, where people look: in the agent's own words, which change nothing on the page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise import Approval, Question
from handraise.desk.local_desk import LocalDesk
from handraise.testing import ManualClock
from tests.server.inbox.browser import open_page
from tests.server.inbox.hostile import TEXTS
from tests.server.inbox.test_hostile import check
from tests.tiers import drawn


@pytest.fixture
def clock() -> ManualClock:
    """The last week is so by the clock on the wall, which pages go by."""
    return ManualClock(datetime.now(UTC) - timedelta(hours=1))


async def used(desk: LocalDesk, prompt: str = "Export the orders?") -> Question:
    """An approval whose action the agent has taken."""
    question = await desk.post(prompt, form=Approval.of("export_orders"))
    await desk.answer(question.id, "approve", by="ann")
    await desk.consume_approval(question.id)
    return question


@pytest.mark.parametrize("title", ["Done", "Failed"])
async def test_the_page_of_a_question_shows_it_as_the_agents_words(
    ann: httpx2.AsyncClient, desk: LocalDesk, title: str
) -> None:
    question = await used(desk)
    before = await open_page(ann, f"/questions/{question.id}")
    assert not any("data-report" in attrs for _, attrs in before.tags)
    await desk.report(
        question.id,
        ok=title == "Done",
        text="182,441 <rows>",
        link="https://a.example/x?y=1&z=2",
        details={"took": "7 s"},
    )
    shown = await open_page(ann, f"/questions/{question.id}")
    assert f'<h2 id="report-title">{title}</h2>' in shown.html
    assert "This is what the agent says. Nobody has checked it." in shown.words
    for text in ("182,441 <rows>", "https://a.example/x?y=1&z=2", "7 s"):
        assert text in shown.agents
    [link] = [attrs for name, attrs in shown.tags if name == "a" and "a.example" in (attrs.get("href") or "")]
    assert (link["href"], link["rel"]) == ("https://a.example/x?y=1&z=2", "noopener noreferrer nofollow")
    assert f"Reported by the agent as {title.lower()}" in shown.words


async def test_what_is_settled_has_a_badge_if_it_failed(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    done, failed = await used(desk, "the first"), await used(desk, "the second")
    await desk.report(done.id, ok=True, text="182,441 rows")
    await desk.report(failed.id, ok=False, text="the disk\nis full")
    shown = await open_page(ann, "/settled")
    assert shown.html.count('<span class="badge loud">Failed</span>') == 1
    assert shown.html.count('class="row urgent"') == 1
    assert "182,441 rows" in shown.agents
    assert "the disk is full" in shown.agents


async def test_insights_count_what_failed_after_an_approval(
    boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    assert "Failed after approval, the newest" not in (await open_page(boss, "/insights")).words
    for ok in (True, False, False):
        await desk.report((await used(desk)).id, ok=ok, text="it <ended>")
    answered = await desk.post("Which?")
    await desk.answer(answered.id, "this", by="ann")
    await desk.report(answered.id, ok=False, text="no approval")
    shown = await open_page(boss, "/insights")
    assert re.search(r"<dt>Failed after approval</dt><dd><a [^>]+failed=1[^>]*>2</a>", shown.html)
    assert "Failed after approval, the newest" in shown.words
    assert "it <ended>" in shown.agents
    assert "no approval" not in shown.words
    statistics = (await boss.get("/v1/statistics")).json()
    assert statistics["failed_after_approval"] == 2


async def test_no_report_breaks_out_of_its_place(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    for text in drawn([each for each in TEXTS if each.strip()], 8):
        question = await used(desk)
        await desk.report(
            question.id,
            ok=False,
            text=text[:10_000],
            link="https://a.example/zqxj",
            details={text[:200]: [text[:1_000]]},
        )
        check((await ann.get(f"/questions/{question.id}")).text)
    check((await ann.get("/settled")).text)
    # Its charts are drawings, which no other page has.
    check(re.sub(r"<svg.*?</svg>", "", (await boss.get("/insights")).text, flags=re.DOTALL))
