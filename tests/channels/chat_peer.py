"""What the stand-ins for chat services have in common: messages to wait for, and faults to come."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

M = TypeVar("M")
"""A message as it stands there."""
F = TypeVar("F")
"""What the service answers for once."""


@dataclass(frozen=True)
class PostedFile:
    """A file that people see in reply to a message: its name, its bytes, and what the service was told that it is."""

    place: Any
    reply_to: Any
    name: str
    data: bytes = field(repr=False)
    kind: str


class ChatPeer(Generic[M, F]):
    """A chat service, to look at from a test."""

    within: ClassVar[float] = 10.0
    which: ClassVar[int] = 0
    """Whether the first message that fits is meant, or the last."""

    def __init__(self) -> None:
        self.messages: dict[Any, M] = {}
        self.faults: dict[str, deque[F]] = {}
        self.files: list[PostedFile] = []
        self._changed = asyncio.Condition()

    def fail(self, what: str, *faults: F) -> None:
        """Let the next calls of this kind end like this."""
        self.faults.setdefault(what, deque()).extend(faults)

    async def until(self, fits: Callable[[], bool]) -> None:
        """Return once something is so, within a bound; it is looked at after every call."""
        async with asyncio.timeout(self.within), self._changed:
            await self._changed.wait_for(fits)

    async def message(self, fits: Callable[[M], bool] = lambda _: True) -> M:
        """A message that fits, once there is one: a copy of how it stands."""
        found: list[M] = []

        def look() -> bool:
            found[:] = [each for each in self.messages.values() if fits(each)]
            return bool(found)

        await self.until(look)
        return copy.deepcopy(found[self.which])

    async def _changes(self) -> None:
        async with self._changed:
            self._changed.notify_all()
