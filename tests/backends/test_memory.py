"""What only memory can show: its bus."""

from __future__ import annotations

from collections.abc import Collection

from handraise.backends.sqlite.memory import open_memory
from handraise.ports import feed_of
from handraise.questions import Ref


async def test_everybody_who_listens_hears_everything() -> None:
    heard: list[tuple[str, Collection[Ref] | None]] = []
    topics = [Ref("w", "q-1"), feed_of("w")]
    async with open_memory() as backend:
        async with (
            backend.bus.listen(lambda topics: heard.append(("waiting", topics))),
            backend.bus.listen(lambda topics: heard.append(("following", topics)), feeds=True),
        ):
            await backend.bus.wake(topics)
        await backend.bus.wake(topics)
    assert heard == [("waiting", topics), ("following", topics)]
