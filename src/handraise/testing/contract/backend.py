"""What a contract test needs from the backend under test, and its fixtures."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest

from handraise import Desk, Event, QuestionNotFound, open_desk
from handraise.backends.sqlite.memory import memory_backend
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.model.json_values import Json
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_events import WorkspaceEvent
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.ports import Backend as Parts
from handraise.ports import Policies, Store
from handraise.testing.clock import ManualClock

REFUSED = QuestionNotFound
"""What another asker gets, on every desk: for it, the question does not exist."""

WHY, STOPPER = "it deletes the wrong rows", "olga"
"""Why a test stops something, and who does."""

SOON = 10.0
"""No wait in the contract may take longer than this; one that passes takes milliseconds."""


async def fed(desk: Desk, count: int, *, after: str | None = None) -> list[Event]:
    """The feed once it has this many events: it may wait for an open transaction of somebody else."""
    async with asyncio.timeout(SOON):
        while len(events := list(await desk.feed(after=after))) < count:  # noqa: ASYNC110 -- the store decides
            await asyncio.sleep(0.01)
    return events


async def final_events(store: Store, workspace: str, count: int) -> Sequence[WorkspaceEvent]:
    """The events, once this many are final: events are held back while an older transaction is open."""
    async with asyncio.timeout(SOON):
        while True:
            found = await store.workspace_events(workspace, after=None, limit=100)
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


def in_a_forked_child(work: Callable[[], object]) -> str:
    """The result of `work` in a child of this process, as text, or the name of the error it raises."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # that a fork of threads is unsafe is what is tested
        child = os.fork()
    if child == 0:
        signal.alarm(int(SOON))  # a child that hangs is killed, and prints nothing
        try:
            said = str(work())
        except BaseException as error:  # noqa: BLE001 -- a child must not continue the test
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
        """A separate desk, as another process would have; takes the arguments of `open_desk`."""
        ...

    async def set_policy(self, workspace: str, document: Json) -> None:
        """Make this the policy of a workspace, as a new version."""
        ...

    async def set_hours(self, workspace: str, group: str, hours: WorkingHours | None) -> None:
        """Set the working hours of a group or, without a name, of the workspace."""
        ...

    async def set_quotas(self, workspace: str, quotas: WorkspaceQuotas) -> None:
        """Set the quotas of a workspace."""
        ...

    async def stop(self, workspace: str, *, agent: str | None = None, tool: str | None = None) -> str:
        """Stop what is covered, as an operator; return the id of the stop. It says `WHY`, by `STOPPER`."""
        ...

    async def resume(self, workspace: str, stop_id: str) -> None:
        """End a stop, as an operator."""
        ...


class AddressBackend:
    """Desks at an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """Another desk at the address."""
        return open_desk(self._address, **options)

    async def set_policy(self, workspace: str, document: Json) -> None:
        """Store the policy as an administrator would."""
        async with open_backend(self._address) as parts:
            await put_policy(parts.policies, workspace, document)

    async def set_hours(self, workspace: str, group: str, hours: WorkingHours | None) -> None:
        """Set working hours, on the store at the address."""
        async with open_backend(self._address) as parts:
            await parts.directory.put_hours(workspace, group, hours)

    async def set_quotas(self, workspace: str, quotas: WorkspaceQuotas) -> None:
        """Set the quotas, on the store at the address."""
        async with open_backend(self._address) as parts:
            await parts.policies.put_quotas(workspace, quotas)

    async def stop(self, workspace: str, *, agent: str | None = None, tool: str | None = None) -> str:
        """Stop what is covered, on the store at the address."""
        async with open_backend(self._address) as parts:
            stop = await parts.policies.stop(workspace, agent=agent, tool=tool, why=WHY, by=STOPPER)
            return stop.id

    async def resume(self, workspace: str, stop_id: str) -> None:
        """End a stop, on the store at the address."""
        async with open_backend(self._address) as parts:
            assert await parts.policies.resume(workspace, stop_id, by=STOPPER) is not None


class MemoryBackend:
    """Desks on one store in memory, which `open_desk` would not share."""

    def __init__(self) -> None:
        self._parts: Parts | None = None

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """Another desk on the store."""
        clock, bus = options.pop("clock", None), options.pop("bus", None)
        self._parts = parts = self._parts or memory_backend(clock)
        return desk_from_store(
            parts.store,
            bus or parts.bus,
            directory=parts.directory,
            policies=parts.policies,
            files=parts.files,
            blobs=parts.blobs,
            clock=clock,
            **options,
        )

    async def set_policy(self, workspace: str, document: Json) -> None:
        """Store the policy."""
        await put_policy(self._opened.policies, workspace, document)

    async def set_hours(self, workspace: str, group: str, hours: WorkingHours | None) -> None:
        """Set working hours."""
        await self._opened.directory.put_hours(workspace, group, hours)

    async def set_quotas(self, workspace: str, quotas: WorkspaceQuotas) -> None:
        """Set the quotas."""
        await self._opened.policies.put_quotas(workspace, quotas)

    async def stop(self, workspace: str, *, agent: str | None = None, tool: str | None = None) -> str:
        """Stop what is covered."""
        return (await self._opened.policies.stop(workspace, agent=agent, tool=tool, why=WHY, by=STOPPER)).id

    async def resume(self, workspace: str, stop_id: str) -> None:
        """End a stop."""
        assert await self._opened.policies.resume(workspace, stop_id, by=STOPPER) is not None

    @property
    def _opened(self) -> Parts:
        assert self._parts is not None, "open a desk first"
        return self._parts


async def put_policy(policies: Policies, workspace: str, document: Json) -> None:
    """Store a policy as the next version."""
    current = await policies.current(workspace)
    expected = 0 if current is None else current.version.version
    assert await policies.put(workspace, document, by="admin", expected=expected) is not None


class ContractFixtures:
    """The fixtures that every part of the contract uses; you define `backend`."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError("A contract class needs a `backend` fixture.")

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def receipt_key(self, tmp_path: Path) -> Path:
        """The key with which the desks of `open(receipt_key=…)` sign receipts."""
        from handraise.signing.key_files import make_key  # noqa: PLC0415 -- cryptography is an extra

        make_key(tmp_path / "receipts.key")
        return tmp_path / "receipts.key"

    @pytest.fixture
    def workspace(self) -> str:
        return f"contract-{uuid.uuid4().hex}"

    @pytest.fixture
    async def desk(self, backend: Backend, clock: ManualClock, workspace: str) -> AsyncIterator[Desk]:
        async with backend.open(clock=clock, workspace=workspace) as desk:
            yield desk
