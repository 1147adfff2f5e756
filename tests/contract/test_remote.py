"""The contract through HTTP: a real server process on a real PostgreSQL in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from handraise import Desk, Event, blocking, open_desk
from handraise.blocking import BlockingDesk
from handraise.model.json_values import Json
from handraise.model.people import Responder
from handraise.model.thread_messages import ThreadMessage
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.signing.key_files import make_key
from handraise.testing.contract import Backend, DeskContract
from handraise.testing.contract.backend import STOPPER, WHY
from handraise.tools import ask_human, reply_to_person
from handraise.wire.credentials import Credentials
from support.issuer import issuer_at
from support.server_process import SharedClock, free_clock, server_process
from tests.conftest import own_database


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A database that no other test uses: the server's sweeps would settle what their clocks call pending."""
    with own_database() as address:
        yield address


@pytest.fixture(scope="module")
def clock_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "clock"
    free_clock(path)
    return path


@pytest.fixture(scope="module")
def servers_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The key with which the server signs receipts."""
    path = tmp_path_factory.mktemp("server") / "receipts.key"
    make_key(path)
    return path


@pytest.fixture(scope="module")
def server(store: str, clock_file: Path, servers_key: Path) -> Iterator[str]:
    options = {"rate_limit": "1000000/second", "receipt_key": str(servers_key)}
    with server_process(store, clock_file, **options) as address:
        yield address


@pytest.fixture(scope="module")
def credentials(server: str, store: str) -> Iterator[Credentials]:
    """Whoever a test names has credentials."""
    del server  # it has made the schema
    with issuer_at(store) as issuer:
        yield issuer


class _RemoteContract(DeskContract):
    @pytest.fixture
    def clock(self, clock_file: Path) -> Iterator[SharedClock]:
        yield SharedClock(clock_file)
        free_clock(clock_file)

    @pytest.fixture
    def receipt_key(self, servers_key: Path) -> Path:
        return servers_key


@pytest.mark.promises_only("the gate runs all of it on memory")
class TestRemote(_RemoteContract):
    @pytest.fixture
    def backend(self, server: str, credentials: Credentials) -> Backend:
        return RemoteBackend(server, credentials)


@pytest.mark.slow("a blocking desk forwards each verb; tests/test_blocking.py compares their signatures")
class TestBlockingRemote(_RemoteContract):
    @pytest.fixture
    def backend(self, server: str, credentials: Credentials) -> Backend:
        return BlockingBackend(server, credentials)

    @pytest.mark.skip(
        "tests/test_blocking.py has it: a child has none of the threads that these desks run in"
    )
    async def test_a_forked_child_is_told_at_once_to_open_a_desk_of_its_own(self, desk: Desk) -> None:
        """See `WaitCases`."""

    @pytest.mark.skip("it works in threads, on a loop of its own")
    async def test_another_event_loop_is_told_to_open_a_desk_of_its_own(self, desk: Desk) -> None:
        """See `WaitCases`."""


class RemoteBackend:
    """Desks at a server. The clock is the server's."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._address = address
        self._credentials = credentials

    def open(self, **options: Any) -> AbstractAsyncContextManager[Desk]:
        """Another desk at the server."""
        options.pop("clock", None)
        options.pop("receipt_key", None)
        return open_desk(self._address, credentials=self._credentials, **options)

    async def stop(self, workspace: str, *, agent: str | None = None, tool: str | None = None) -> str:
        """Stop what is covered, as an administrator."""
        stop = {"agent": agent, "tool": tool, "why": WHY}
        async with await self._administrator(workspace) as client:
            response = await client.post("/v1/stops", json=stop)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def resume(self, workspace: str, stop_id: str) -> None:
        """End a stop, as an administrator."""
        async with await self._administrator(workspace) as client:
            response = await client.delete(f"/v1/stops/{stop_id}")
        assert response.status_code == 200, response.text

    async def set_policy(self, workspace: str, document: Json) -> None:
        """Make this the policy of a workspace, as an administrator."""
        async with await self._administrator(workspace) as client:
            before = await client.get("/v1/policy")
            headers = {"if-match": before.headers["etag"]}
            params = {"check_recipients": "false"}
            response = await client.put("/v1/policy", json=document, headers=headers, params=params)
        assert response.status_code == 200, response.text

    async def set_hours(self, workspace: str, group: str, hours: WorkingHours | None) -> None:
        """Set working hours, as an administrator."""
        place = f"/v1/groups/{group}/hours" if group else "/v1/hours"
        async with await self._administrator(workspace) as client:
            if hours is None:
                response = await client.delete(place)
            else:
                response = await client.put(place, json=hours.model_dump())
        assert response.status_code == 200, response.text

    async def set_quotas(self, workspace: str, quotas: WorkspaceQuotas) -> None:
        """Set the quotas, as an administrator."""
        async with await self._administrator(workspace) as client:
            response = await client.put("/v1/quotas", json=quotas.model_dump())
        assert response.status_code == 200, response.text

    async def _administrator(self, workspace: str) -> httpx2.AsyncClient:
        token = await self._credentials.person(workspace, Responder(STOPPER))
        return httpx2.AsyncClient(base_url=self._address, headers={"authorization": f"Bearer {token}"})


class BlockingBackend(RemoteBackend):
    """The same through the face for threads: every verb runs in one of its own."""

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Desk]:
        """Another desk at the server, in front of many threads."""
        options.pop("clock", None)
        options.pop("receipt_key", None)
        with ThreadPoolExecutor(max_workers=256) as threads:
            loop = asyncio.get_running_loop()
            opened = blocking.open_desk(self._address, credentials=self._credentials, **options)
            desk = await loop.run_in_executor(threads, opened.__enter__)
            try:
                yield cast("Desk", ThreadedDesk(desk, threads))
            finally:
                await loop.run_in_executor(threads, opened.__exit__, None, None, None)


class ThreadedDesk:
    """A blocking desk as the contract can drive it."""

    def __init__(self, desk: BlockingDesk, threads: ThreadPoolExecutor) -> None:
        self._desk = desk
        self._threads = threads

    @property
    def workspace(self) -> str:
        return self._desk.workspace

    def scoped(self, workspace: str | None = None, *, asker: str | None = None) -> ThreadedDesk:
        return ThreadedDesk(self._desk.scoped(workspace, asker=asker), self._threads)

    async def follow(self, *, after: str | None = None) -> AsyncIterator[Event]:
        events = self._desk.follow(after=after)
        while True:
            yield await self._in_thread(next, events)

    async def messages(self, question_id: str, *, after: int = 0) -> AsyncIterator[ThreadMessage]:
        messages = self._desk.messages(question_id, after=after)
        while (message := await self._in_thread(next, messages, None)) is not None:
            yield message

    def __getattr__(self, verb: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            return await self._in_thread(lambda: getattr(self._desk, verb)(*args, **options))

        return call

    async def _in_thread(self, work: Any, *args: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        except RuntimeError as error:  # the threads went with the desk
            if "shutdown" in str(error):
                return work(*args)
            raise


async def test_a_models_call_ends_when_a_person_asks_back_and_its_reply_continues_it(
    server: str, credentials: Credentials, workspace: str
) -> None:
    async with open_desk(server, credentials=credentials, workspace=workspace) as desk:
        asking = ask_human(desk, conversation="c")
        replying = reply_to_person([asking])
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            call = group.create_task(asking.execute({"question": "Which region?"}, call_id="call_1"))
            while not (pending := (await desk.list_pending(conversation="c")).items):
                await asyncio.sleep(0.01)
            await desk.note(pending[0].id, "I know them", by="ana")
            await desk.ask_back(pending[0].id, "Which customer?", by="ana")
        result = call.result()
        assert [(each.number, each.text) for each in result.messages] == [(2, "Which customer?")]
        reply = {"question_id": pending[0].id, "message": 2, "text": "Customer 12."}
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            call = group.create_task(replying.execute(reply, call_id="call_2"))
            while (await desk.get(pending[0].id)).is_askers_turn:
                await asyncio.sleep(0.01)
            await desk.answer(pending[0].id, "eu", by="ana")
        assert (call.result().status, call.result().text) == ("answered", "eu")
