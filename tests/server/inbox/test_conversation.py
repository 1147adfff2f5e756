"""The page of a conversation: everything that was asked in it, pending or settled, for those whom it concerns."""

from __future__ import annotations

import re
from html import unescape

import httpx2

from handraise import Approval, Confirm
from handraise.desk.local_desk import LocalDesk
from handraise.model.provenance import Provenance
from tests.server.inbox.browser import open_page

NAME = "release & 4.2"


async def test_link_to_a_conversation_shows_what_waits_and_what_is_settled(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    answered = await desk.post("Is it built?", form=Confirm(), conversation=NAME)
    await desk.answer(answered.id, "yes", by="ann", provenance=Provenance(channel="web"))
    denied = await desk.post("Deploy?", form=Approval.of("deploy"), conversation=NAME)
    await desk.answer(denied.id, "deny", by="bob")
    waits = await desk.post("Roll back?", form=Confirm(), conversation=NAME)
    await desk.post("Elsewhere", form=Confirm(), conversation="another")
    await desk.post("Not for ann", form=Confirm(), conversation=NAME, recipients=["bob"])
    opened = await open_page(ann, f"/questions/{waits.id}")
    [href] = {unescape(each) for each in re.findall(r'href="(/conversation[^"]+)"', opened.html)}
    shown = await open_page(ann, href)
    rows = [attrs["id"] for _, attrs in shown.tags if (attrs.get("id") or "").startswith("q-")]
    assert rows == [f"q-{each.id}" for each in (answered, denied, waits)]
    for text in ("Pending", "Denied", "Answered by you through the inbox", NAME):
        assert text in shown.words
    back = (await open_page(ann, f"/questions/{denied.id}?from={href.replace('?', '%3F')}")).html
    assert "The conversation</a>" in back


async def test_an_administrator_sees_all_of_it_and_others_only_what_is_theirs(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    await desk.post("Only for Bob", form=Confirm(), conversation=NAME, recipients=["bob"])
    path = "/conversation?name=release+%26+4.2"
    assert "Nothing in this conversation is for you" in (await open_page(ann, path)).words
    assert "Only for Bob" in (await open_page(boss, path)).words
    assert (await open_page(ann, "/conversation")).words
