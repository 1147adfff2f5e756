"""The views of waiting questions, their filters and orders, and the results of a search."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import httpx2

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.browser import Page, open_page
from tests.server.inbox.test_queue import asked


def found(page: Page) -> list[str]:
    return [attrs["data-found"] or "" for _, attrs in page.tags if "data-found" in attrs]


async def test_views_have_numbers_and_are_kept_in_the_address(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    plain = await desk.post("Plain?", recipients=["ann", "bob"])
    pay = await desk.post("Pay?", form=Approval.of("<b>pay</b>", {}, risk="high"), recipients=["ann"])
    await desk.post("For Bob?", recipients=["bob"])
    shown = await open_page(ann, "/")
    assert asked(shown) == [pay.id, plain.id]
    numbers = dict(
        re.findall(r'<a href="/\?view=(\w+)"[^>]*>[^<]*<span class="views-number">(\d+)', shown.html)
    )
    assert numbers == {
        "urgent": "1",
        "approvals": "1",
        "mine": "2",
        "vote_missing": "0",
        "agents_turn": "0",
        "snoozed": "0",
    }
    narrowed = await open_page(ann, "/?view=approvals&risk=high&sort=newest")
    assert asked(narrowed) == [pay.id]
    assert "newest first" in narrowed.words
    # Another view keeps the filters; a chip removes one of them.
    assert 'href="/?view=urgent&amp;risk=high&amp;sort=newest"' in narrowed.html
    assert 'href="/?view=approvals&amp;sort=newest"' in narrowed.html
    assert asked(await open_page(ann, f"/?{urlencode({'tool': '<b>pay</b>'})}")) == [pay.id]
    assert asked(await open_page(ann, "/?sort=age")) == [plain.id, pay.id]
    # What is not a view, a kind or an order changes nothing.
    assert asked(await open_page(ann, "/?view=all'&kind=x&risk=y&expires=z&age=1&sort=up")) == [
        pay.id,
        plain.id,
    ]
    await desk.set_aside(plain.id, by="ann")
    assert asked(await open_page(ann, "/?view=snoozed")) == [plain.id]
    assert "that fits this filter" in (await open_page(ann, "/?kind=confirm")).words


async def test_a_person_finds_only_what_they_may_see(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    waits = await desk.post("Refund <i>Zoë</i> now?", recipients=["ann"])
    ended = await desk.post("Which refund?", recipients=["ann"])
    await desk.answer(ended.id, "The zoe one", by="ann")
    await desk.post("Refund Zoe for Bob?", recipients=["bob"])
    shown = await open_page(ann, "/search?q=zoe+refu")
    assert found(shown) == [ended.id, waits.id]
    assert "<i>" not in shown.html
    assert found(await open_page(ann, "/search?q=zoe+refu&all=1")) == [ended.id, waits.id]
    assert "Nothing was found" in (await open_page(ann, "/search?q=bob")).words
    for strange in ("", "%22", "%00", "'+|+:*", "%ED%A0%80"):
        assert found(await open_page(ann, f"/search?q={strange}")) == []
