from __future__ import annotations

import httpx2

from handraise.desk.local_desk import LocalDesk
from tests.server.inbox.browser import open_page


async def test_the_page_names_the_other_agents_that_get_the_answer(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    first = await desk.post("Which rate?", recipients=["ann"], topic="rate")
    assert "also for" not in (await open_page(ann, f"/questions/{first.id}")).words
    others = [desk.scoped(asker=name) for name in ("invoice-bot", "<b>tax</b>-bot")]
    second, _ = [await each.post("Which rate?", recipients=["ann"], topic="rate") for each in others]
    page = await open_page(ann, f"/questions/{first.id}")
    assert "Your answer is also for these agents, which have asked the same:" in page.words
    assert "invoice-bot and <b>tax</b>-bot" in page.words
    followed = await ann.get(f"/questions/{second.id}")
    assert "Another agent has asked the same." in followed.text
    assert f'href="/questions/{first.id}"' in followed.text
    assert second.id not in (await ann.get("/")).text
    await desk.answer(first.id, "19", by="ann")
    page = await open_page(ann, f"/questions/{second.id}")
    assert "Answered by you, who was asked the same by another agent" in page.words
    assert "Another agent has asked the same." not in page.words
