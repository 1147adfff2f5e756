"""Hints between processes. The docstrings are the contract."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Protocol, TypeAlias

from handraise.model.questions import Ref

HintHandler = Callable[[Collection[Ref] | None], None]
"""Called on the event loop with the topic of a hint; None means that anything may have changed."""


OnReady: TypeAlias = Callable[[], None]
"""Called when the hints of a workspace that was added reach the listener, if they did not before."""


class Interest:
    """The workspaces whose hints a listener needs, which may change at any time.

    A workspace that was added several times stays until it was discarded as often.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._followers: list[Callable[[str, OnReady], None]] = []

    def __contains__(self, workspace: str) -> bool:
        """Whether hints of this workspace are needed."""
        return workspace in self._counts

    def __iter__(self) -> Iterator[str]:
        """The workspaces."""
        return iter(self._counts)

    def __len__(self) -> int:
        """The number of workspaces."""
        return len(self._counts)

    def add(self, workspace: str, on_ready: OnReady) -> None:
        """Need the hints of a workspace from now on. Those sent before `on_ready` is called may be lost."""
        self._counts[workspace] = self._counts.get(workspace, 0) + 1
        for follower in self._followers:
            follower(workspace, on_ready)

    def discard(self, workspace: str) -> None:
        """Take back one `add`."""
        self._counts[workspace] -= 1
        if not self._counts[workspace]:
            del self._counts[workspace]

    @contextmanager
    def followed_by(self, follower: Callable[[str, OnReady], None]) -> Iterator[None]:
        """Inside this context, call a bus's function with what is added."""
        self._followers.append(follower)
        try:
            yield
        finally:
            self._followers.remove(follower)


class Bus(Protocol):
    """Hints. They may be lost, duplicated or early; this affects only speed, never results.

    A topic is the place of a question that was settled, `feed_of` a workspace in which anything happened, or
    `credentials_of` one in which somebody's rights have changed.
    """

    async def wake(self, topics: Collection[Ref]) -> None:
        """Tell other processes about these topics. Never raises if nobody listens."""
        ...

    def listen(
        self,
        on_hint: HintHandler,
        *,
        feeds: bool = False,
        shared_feeds: bool = False,
        interest: Interest | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Receive hints of other processes inside this context. Once it is entered, hints reach `on_hint`.

        Calls `on_hint(None)` after any gap in which hints may have been lost. Without `feeds`, hints
        about feeds may be left out. With `interest`, hints about other workspaces may be left out.

        With `shared_feeds`, hints about the feeds of all workspaces are received, but each of them may go to only one of the
        processes that listen in this way: enough for work that any of them can do.

        A bus may ignore all three and send every hint to every listener.
        """
        ...


@functools.lru_cache(maxsize=1_000)
def feed_of(workspace: str) -> Ref:
    """The topic of a workspace's feed: no question has an empty id."""
    return Ref(workspace, "")


def credentials_of(workspace: str) -> Ref:
    """The topic of a workspace's keys, sessions, people and groups: no question has such an id."""
    return Ref(workspace, "!credentials")
