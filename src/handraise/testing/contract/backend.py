"""What a contract test needs of the backend under test, and the fixtures it works with."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest

from handraise import LocalDesk, open_desk, open_desk_on
from handraise.backends.memory import MemoryBus, MemoryStore
from handraise.testing.clock import ManualClock

SOON = 10.0
"""No wait in the contract may take longer than this; one that passes takes milliseconds."""


class Backend(Protocol):
    """Opens desks on one store."""

    def open(self, **options: Any) -> AbstractAsyncContextManager[LocalDesk]:
        """A desk of its own, as another process would have; takes what `open_desk` takes."""
        ...


class AddressBackend:
    """Desks at an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def open(self, **options: Any) -> AbstractAsyncContextManager[LocalDesk]:
        """Another desk at the address."""
        return open_desk(self._address, **options)


class MemoryBackend:
    """Desks on one store in memory, which `open_desk` would not share."""

    def __init__(self) -> None:
        self._store: MemoryStore | None = None
        self._bus = MemoryBus()

    def open(self, **options: Any) -> AbstractAsyncContextManager[LocalDesk]:
        """Another desk on the store."""
        clock, bus = options.pop("clock", None), options.pop("bus", None)
        self._store = self._store or MemoryStore(clock)
        return open_desk_on(self._store, bus or self._bus, **options)


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
    async def desk(self, backend: Backend, clock: ManualClock, workspace: str) -> AsyncIterator[LocalDesk]:
        async with backend.open(clock=clock, workspace=workspace) as desk:
            yield desk
