"""What an agent says about an action or an option, on the page: in its box, harmless, and choosing nothing."""

from __future__ import annotations

import httpx2

from handraise import Approval, Choice, Option
from handraise.desk.local_desk import LocalDesk
from handraise.forms import AnyForm, Brief, Link
from tests.server.inbox.browser import open_page
from tests.server.inbox.hostile import TEXTS
from tests.server.inbox.test_hostile import check
from tests.tiers import drawn

BRIEF = Brief(
    why="The parcel <came> back",
    checked=("Order 12 exists", "Paid once"),
    reversible=False,
    affects="1 customer",
    links=(Link("Order", "https://shop.example/orders/12?a=1&b=2"),),
)


async def test_the_page_shows_a_brief_as_the_agents_words(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    question = await desk.post("Refund?", form=Approval.of("refund", {"order": 12}, brief=BRIEF))
    shown = await open_page(ann, f"/questions/{question.id}")
    for text in (
        "What the agent says",
        "The parcel <came> back",
        "Order 12 exists",
        "Paid once",
        "1 customer",
        "Order",
        "shop.example",
        "https://shop.example/orders/12?a=1&b=2",
    ):
        assert text in "".join(shown.agents), text
    [link] = [
        attrs for name, attrs in shown.tags if name == "a" and "shop.example" in (attrs.get("href") or "")
    ]
    assert link == {
        "href": "https://shop.example/orders/12?a=1&b=2",
        "rel": "noopener noreferrer nofollow",
        "target": "_blank",
    }
    await desk.answer(question.id, "approve", by="ann")
    assert "The parcel <came> back" in "".join((await open_page(ann, f"/questions/{question.id}")).agents)


async def test_previews_are_shown_and_what_is_recommended_is_not_ticked(
    ann: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    options = (
        Option(id="a", label="Sidebar", recommended=True, reason="More room", preview="**Left** side"),
        Option(id="b", label="Tabs", preview="x" * 2_000),
    )
    question = await desk.post("Which?", form=Choice(options=options))
    shown = await open_page(ann, f"/questions/{question.id}")
    for text in ("The agent recommends this", "More room", "Preview of “Sidebar”", "Left", "x" * 2_000):
        assert text in "".join(shown.agents), text
    assert "<strong>Left</strong> side" in shown.html
    assert not [attrs for name, attrs in shown.tags if name == "input" and "checked" in attrs]
    previews = [attrs for name, attrs in shown.tags if name == "details" and attrs.get("class") == "preview"]
    assert ["open" in attrs for attrs in previews] == [True, False]
    await desk.answer(question.id, "b", by="ann")
    settled = await open_page(ann, f"/questions/{question.id}")
    assert "Preview of “Sidebar”" in "".join(settled.agents)


async def test_nothing_in_it_can_harm(ann: httpx2.AsyncClient, desk: LocalDesk) -> None:
    for text in drawn([each for each in TEXTS if each[:500].strip()], 8):
        short = text[:500]
        brief = Brief(
            why=text[:10_000], checked=(short,), affects=short, links=(Link(short, "https://a.example/zqxj"),)
        )
        option = Option(id="a", label="A", recommended=True, reason=short, preview=text[:5_000])
        forms: list[AnyForm] = [
            Approval.of("refund", brief=brief),
            Choice(options=(option, Option(id="b", label="B"))),
        ]
        for form in forms:
            question = await desk.post("Which?", form=form)
            check((await open_page(ann, f"/questions/{question.id}")).html)
