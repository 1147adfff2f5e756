"""Questions that nobody waits for, on the pages without scripts: they say so, and administrators close them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise import Question, Withdrawn
from handraise.desk.local_desk import LocalDesk
from handraise.server import ServerContext
from handraise.testing import ManualClock
from tests.server.conftest import ORIGIN
from tests.server.inbox.browser import open_page
from tests.server.inbox.scene import link_to

SAID = "Nobody is waiting for this answer any more: deploy-bot was last heard from 12 minutes ago."


@pytest.fixture
def clock() -> ManualClock:
    """Twelve minutes ago; the pages have the real time."""
    return ManualClock(datetime.now(UTC) - timedelta(minutes=12, seconds=20))


@pytest.fixture
async def orphan(desk: LocalDesk) -> Question:
    return await desk.post("Ship?", heartbeat="5m")


def here(question: Question) -> str:
    return f"/questions/{question.id}"


async def close(client: httpx2.AsyncClient, question: Question, why: str = "") -> httpx2.Response:
    return await client.post(here(question), data={"do": "close", "why": why}, headers=ORIGIN)


async def test_the_list_and_the_page_say_that_nobody_waits(
    ann: httpx2.AsyncClient, desk: LocalDesk, orphan: Question, clock: ManualClock
) -> None:
    live = await desk.post("Live?", heartbeat="1h")
    assert (await open_page(ann, "/")).html.count("Nobody is waiting") == 1
    page = (await open_page(ann, here(orphan))).html
    assert f"{SAID} You can still answer it." in page
    assert "data-close" not in page, "only administrators close it"
    assert "Nobody is waiting" not in (await open_page(ann, here(live))).html
    clock.advance(timedelta(minutes=12))
    await desk.heartbeat([orphan.id])
    assert "Nobody is waiting" not in (await open_page(ann, here(orphan))).html


async def test_an_administrator_closes_it_with_a_reason(
    boss: httpx2.AsyncClient, ann: httpx2.AsyncClient, desk: LocalDesk, orphan: Question
) -> None:
    assert "data-close" in (await open_page(boss, here(orphan))).html
    refused = await close(boss, orphan, "x" * 20_000)
    assert (refused.status_code, (await desk.get(orphan.id)).outcome) == (422, None)
    assert (await close(boss, orphan, "the agent <b>is</b> gone")).status_code == 303
    outcome = (await desk.get(orphan.id)).outcome
    assert isinstance(outcome, Withdrawn)
    assert (outcome.by, outcome.reason) == ("boss", "the agent <b>is</b> gone")
    assert (await close(boss, orphan)).status_code == 303, "the same again"
    page = (await open_page(ann, here(orphan))).html
    assert "the agent &lt;b&gt;is&lt;/b&gt; gone" in page
    assert "Nobody is waiting" not in page


async def test_nobody_else_closes_it_and_nothing_that_somebody_waits_for_is_closed(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, orphan: Question
) -> None:
    live, plain = await desk.post("Live?", heartbeat="1h"), await desk.post("Plain?")
    assert (await close(ann, orphan)).status_code == 403
    link = await link_to(ctx, orphan)
    by_link = await ann.post(link, data={"do": "close"}, headers=ORIGIN)
    assert by_link.status_code >= 400
    for question in (live, plain):
        assert (await close(boss, question)).status_code == 403
    for question in (orphan, live, plain):
        assert (await desk.get(question.id)).outcome is None


async def test_what_the_policy_closed_says_so(
    ann: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, clock: ManualClock
) -> None:
    document = {"close_orphans": "1m", "rules": []}
    await ctx.policies.put(desk.workspace, document, by="boss", expected=0)
    question = await desk.post("Ship?", heartbeat="1m")
    clock.advance(timedelta(minutes=2))
    await desk.run_due()
    page = (await open_page(ann, here(question))).html
    assert "Closed by the policy, because nobody was waiting for the answer any more" in page
