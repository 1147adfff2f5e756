"""What a contract test needs of the backend under test, and the fixtures it works with."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest

from handraise import Desk, Event, QuestionNotFound, open_desk
from handraise.backends.memory import MemoryBus, MemoryStore
from handraise.desks import desk_from_store
from handraise.testing.clock import ManualClock

REFUSED = QuestionNotFound
"""What another asker gets, on every desk: a question that is not its own is as good as not there."""

SOON = 10.0
"""No wait in the contract may take longer than this; one that passes takes milliseconds."""


async def fed(desk: Desk, count: int, *, after: str | None = None) -> list[Event]:
    """The feed once it has so many events: it may wait for a transaction that somebody else has under way."""
    async with asyncio.timeout(SOON):
        while len(events := list(await desk.feed(after=after))) < count:  # noqa: ASYNC110 -- the store decides
            await asyncio.sleep(0.01)
    return events


def in_a_forked_child(work: Callable[[], object]) -> str:
    """What `work` gives in a child of this process, as text: its result, or the name of the error it raises."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # that a fork of threads is unsafe is what is tested
        child = os.fork()
    if child == 0:
        signal.alarm(int(SOON))  # one that hangs is killed, and says nothing
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 -- a child must not go on with the test
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


class Backend(Protocol):
    """Opens desks on one store."""

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """A desk of its own, as another process would have; takes what `open_desk` takes."""
        ...


class AddressBackend:
    """Desks at an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """Another desk at the address."""
        return open_desk(self._address, **options)


class MemoryBackend:
    """Desks on one store in memory, which `open_desk` would not share."""

    def __init__(self) -> None:
        self._store: MemoryStore | None = None
        self._bus = MemoryBus()

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """Another desk on the store."""
        clock, bus = options.pop("clock", None), options.pop("bus", None)
        self._store = self._store or MemoryStore(clock)
        return desk_from_store(self._store, bus or self._bus, **options)


class ContractFixtures:
    """The fixtures that every part of the contract uses; `backend` is yours to give."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError("A contract class needs a `backend` fixture.")

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def workspace(self) -> str:
        return f"contract-{uuid.uuid4().hex}"

    @pytest.fixture
    async def desk(self, backend: Backend, clock: ManualClock, workspace: str) -> AsyncIterator[Desk]:
        async with backend.open(clock=clock, workspace=workspace) as desk:
            yield desk
