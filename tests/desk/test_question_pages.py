"""A page of large questions ends early, and its cursor leads to all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic_core import to_json

from handraise import Desk, Question, open_desk
from handraise.ports.desk import MAX_PAGE_BYTES, Page

NUMBER = 12
LARGE = {"text": ["é" * 30] * 900}
"""As context and state, so large that nine or ten of the questions fill a page."""

Look = Callable[[Desk, str | None], Awaitable[Page[Question]]]
PENDING: dict[str, Look] = {
    "age": lambda desk, after: desk.list_pending(after=after, limit=500),
    "urgency": lambda desk, after: desk.list_pending(order="urgency", after=after, limit=500),
    "newest": lambda desk, after: desk.list_pending(order="newest", after=after, limit=500),
    "search": lambda desk, after: desk.search("large", after=after, limit=500),
}
SETTLED: dict[str, Look] = {"settled": lambda desk, after: desk.list_settled(after=after, limit=500)}


async def test_a_page_of_large_questions_ends_early_and_the_next_ones_have_the_others(
    address: str, workspace: str
) -> None:
    async with open_desk(address, workspace=workspace) as desk:
        asked = [
            (await desk.post("A large one", context=LARGE, state=LARGE, topic="large")).id
            for _ in range(NUMBER)
        ]
        for name, look in PENDING.items():
            assert await _read(desk, look) == sorted(asked), name
        followers = await desk.list_followers(asked[0], limit=500)
        assert 0 < len(followers) < NUMBER - 1
        assert [each.id for each in followers] == asked[1 : len(followers) + 1]
        for each in asked:
            await desk.withdraw(each)
        for name, look in SETTLED.items():
            assert await _read(desk, look) == sorted(asked), name


async def _read(desk: Desk, look: Look) -> list[str]:
    """The ids on all pages, none of which is larger than a page should be."""
    found: list[str] = []
    after: str | None = None
    for _ in range(NUMBER):
        page = await look(desk, after)
        sizes = [len(to_json((each.context, each.state))) for each in page]
        assert sum(sizes[:-1]) < MAX_PAGE_BYTES
        found += [each.id for each in page]
        if (after := page.next) is None:
            break
        assert sum(sizes) > 0.9 * MAX_PAGE_BYTES
    return sorted(found)


async def test_a_page_of_small_questions_is_read_in_parts_and_is_full(address: str, workspace: str) -> None:
    async with open_desk(address, workspace=workspace) as desk:
        asked = [(await desk.post(f"{each}?")).id for each in range(120)]
        for order in ("age", "urgency"):
            page = await desk.list_pending(order=order, limit=110)
            assert [each.id for each in page] == asked[:110]
            last = await desk.list_pending(order=order, limit=110, after=page.next)
            assert ([each.id for each in last], last.next) == (asked[110:], None)
