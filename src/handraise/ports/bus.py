"""Hints between processes. The docstrings are the contract."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from handraise.model.questions import Ref

HintHandler = Callable[[Collection[Ref] | None], None]
"""Called on the event loop with the topic of a hint; None means that anything may have changed."""


class Bus(Protocol):
    """Hints. They may be lost, duplicated or early; this affects only speed, never results.

    A topic is the place of a question that was settled, `feed_of` a workspace in which anything happened, or
    `credentials_of` one in which somebody's rights have changed.
    """

    async def wake(self, topics: Collection[Ref]) -> None:
        """Tell other processes about these topics. Never raises if nobody listens."""
        ...

    def listen(self, on_hint: HintHandler, *, feeds: bool = False) -> AbstractAsyncContextManager[None]:
        """Receive hints of other processes inside this context. Once it is entered, hints reach `on_hint`.

        Calls `on_hint(None)` after any gap in which hints may have been lost. Without `feeds`, hints
        about feeds may be left out.
        """
        ...


@functools.lru_cache(maxsize=1_000)
def feed_of(workspace: str) -> Ref:
    """The topic of a workspace's feed: no question has an empty id."""
    return Ref(workspace, "")


def credentials_of(workspace: str) -> Ref:
    """The topic of a workspace's keys, sessions, people and groups: no question has such an id."""
    return Ref(workspace, "!credentials")
