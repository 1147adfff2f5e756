"""A stop cuts nothing: whatever the server began to answer, it answered to the end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise.desk_factory import open_backend
from handraise.questions import Ref
from support.command import SOON, Serving, serving
from support.issuer import Issuer
from tests.conftest import own_database
from tests.tiers import sized

POSTERS, WAITERS, FOLLOWERS = (
    sized(gate=6, nightly=12),
    sized(gate=15, nightly=40),
    sized(gate=10, nightly=25),
)
BUSY = 5


@dataclass
class Client:
    """Makes requests, each with a name of its own, and remembers how each ended."""

    http: httpx2.AsyncClient
    token: str
    whole: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)

    async def request(self, method: str, path: str, body: Any = None) -> httpx2.Response | None:
        """The whole response, or None where there was nobody any more."""
        name = uuid.uuid4().hex
        headers = {"authorization": f"Bearer {self.token}", "x-request-id": name}
        try:
            response = await self.http.request(method, path, json=body, headers=headers)
        except httpx2.ConnectError:
            self.refused.append(name)
            return None
        except httpx2.TransportError as error:
            self.broken[name] = repr(error)
            return None
        assert response.headers["x-request-id"] == name
        self.whole[name] = response
        return response

    async def follow(self, begun: Callable[[], None]) -> str:
        """Everything that one event stream said, until it ended."""
        name = uuid.uuid4().hex
        headers = {"authorization": f"Bearer {self.token}", "x-request-id": name}
        said = ""
        try:
            async with self.http.stream("GET", "/v1/events", headers=headers) as response:
                async for text in response.aiter_text():
                    if not said:
                        begun()
                    said += text
        except httpx2.TransportError as error:
            self.broken[name] = repr(error)
            return said
        self.whole[name] = said
        return said


@asynccontextmanager
async def client(server: Serving, token: str) -> AsyncIterator[Client]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=server.address, timeout=SOON, limits=limits) as http:
        yield Client(http, token)


@pytest.fixture(
    params=[pytest.param("sqlite", marks=pytest.mark.slow("the gate stops one on PostgreSQL")), "postgres"]
)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store in which no other test has left anything that the server would warn of."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'questions.db'}"
    else:
        with own_database() as found:
            yield found


@pytest.mark.promise("P1", "P3")
@pytest.mark.only_proof_of("a server that is stopped cuts no request")
async def test_a_stop_under_load_cuts_no_request_and_loses_no_wait(
    address: str, tmp_path: Path, workspace: str
) -> None:
    with serving(address, tmp_path, workspace=workspace, heartbeat="0.5") as server:
        async with open_backend(address) as backend, asyncio.timeout(SOON):
            issuer = Issuer(backend.directory)
            async with (
                client(server, await issuer.agent(workspace, "agent")) as agent,
                client(server, await issuer.person(workspace, "ada")) as person,
            ):
                busy = Busy()
                async with asyncio.TaskGroup() as group:
                    streams = [group.create_task(agent.follow(busy.follower_began)) for _ in range(FOLLOWERS)]
                    waits = [group.create_task(wait_for_ever(agent, busy)) for _ in range(WAITERS)]
                    for _ in range(POSTERS):
                        group.create_task(post_and_answer(agent, person, busy))
                    await busy.everybody_is.wait()
                    server.send(signal.SIGTERM)
                assert await asyncio.to_thread(server.wait) == 0
                posted = [
                    Ref(workspace, response.json()["id"])
                    for response in agent.whole.values()
                    if isinstance(response, httpx2.Response) and response.status_code == 201
                ]
                assert None not in await backend.store.read(posted)
        check_nothing_was_cut(server, agent, person)
        # A wait is sent away with the truth: nobody has answered yet.
        for wait in waits:
            response = wait.result()
            assert response is not None
            assert (response.status_code, response.json()["status"]) == (200, "pending")
        for stream in streams:
            said = stream.result()
            assert said.startswith("event: ready")
            assert said.endswith("\n\n")


def check_nothing_was_cut(server: Serving, *clients: Client) -> None:
    logged = {line["request_id"]: line for line in server.log if line["event"] == "request"}
    whole = {name for each in clients for name in each.whole}
    broken = {name: why for each in clients for name, why in each.broken.items()}
    refused = sum(len(each.refused) for each in clients)
    print(f"{len(whole)} whole, {refused} refused, {len(broken)} broken: {Counter(broken.values())}")
    assert broken == {}
    assert set(logged) == whole
    assert [line for line in logged.values() if line.get("cut") or line["status"] >= 500] == []
    assert [line["event"] for line in server.log if line["level"] in ("warning", "error")] == []
    assert server.log[-1]["event"] == "stopped"


class Busy:
    """Says when everybody is in the middle of something."""

    def __init__(self) -> None:
        self.everybody_is = asyncio.Event()
        self._followers = self._waiters = self._posts = 0

    def follower_began(self) -> None:
        self._followers += 1
        self._look()

    def waiter_began(self) -> None:
        self._waiters += 1
        self._look()

    def post_was_made(self) -> None:
        self._posts += 1
        self._look()

    def _look(self) -> None:
        if (
            self._followers == FOLLOWERS
            and self._waiters == WAITERS
            and self._posts > POSTERS * BUSY + WAITERS
        ):
            self.everybody_is.set()


async def wait_for_ever(agent: Client, busy: Busy) -> httpx2.Response | None:
    asked = await agent.request("POST", "/v1/questions", {"prompt": "Nobody answers this."})
    assert asked is not None
    busy.post_was_made()
    busy.waiter_began()
    return await agent.request("GET", f"/v1/questions/{asked.json()['id']}/outcome?wait=60s")


async def post_and_answer(agent: Client, person: Client, busy: Busy) -> None:
    """Ask and answer, over and over, until there is no server any more."""
    while asked := await agent.request("POST", "/v1/questions", {"prompt": "Go on?"}):
        assert asked.status_code == 201, asked.text
        busy.post_was_made()
        place = f"/v1/questions/{asked.json()['id']}/answer"
        answered = await person.request("POST", place, {"value": "yes"})
        if answered is None:
            return
        assert (answered.status_code, answered.json()["status"]) == (200, "answered")


@pytest.mark.slow(
    "starts a server and a crowd; the stop under load is in the gate, and this differs in what the kernel holds"
)
def test_whoever_is_at_the_door_when_it_closes_is_still_let_in(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'q.db'}", tmp_path) as server:
        host, port = server.address.removeprefix("http://").split(":")
        ends: Counter[bytes] = Counter()

        def come_again() -> None:
            """Connect and ask, over and over, until nobody opens any more."""
            with suppress(ConnectionRefusedError):
                while True:
                    with socket.create_connection((host, int(port)), timeout=SOON) as line:
                        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                        try:
                            ends[line.recv(12)] += 1
                        except ConnectionResetError:
                            ends[b"cut"] += 1

        with ThreadPoolExecutor(24) as crowd:
            for _ in range(24):
                crowd.submit(come_again)
            while ends.total() < 100:
                time.sleep(0.01)
            server.send(signal.SIGTERM)
            assert server.wait() == 0
        assert set(ends) == {b"HTTP/1.1 200"}, ends


@pytest.mark.slow("starts a server; test_health.py has that a server that is leaving is not ready")
async def test_while_it_drains_it_serves_on_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'q.db'}"
    with serving(address, tmp_path, drain_seconds="600") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=SOON) as http, asyncio.timeout(SOON):
            assert (await http.get("/readyz")).status_code == 200
            server.send(signal.SIGTERM)
            while (ready := await http.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.01)
            assert ready.status_code == 503
            assert ready.headers["content-type"] == "application/problem+json"
            assert json.loads(ready.text)["detail"] == "This server is stopping."
            # A second request over a new connection: the door is still open.
            async with httpx2.AsyncClient(base_url=server.address, timeout=SOON) as other:
                assert (await other.get("/healthz")).status_code == 200
            server.send(signal.SIGINT)  # somebody loses patience
            assert await asyncio.to_thread(server.wait) == 0


@pytest.mark.slow("starts a server; the gate stops one under load")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_idle_server_stops_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with serving(f"sqlite:///{tmp_path / 'q.db'}", tmp_path) as server:
        server.send(number)
        assert server.wait() == 0
        assert [line["event"] for line in server.log] == ["listening", "stopping", "stopped"]


@pytest.mark.slow("starts a server and waits by the clock on the wall")
async def test_a_request_that_never_ends_is_cut_after_its_time_and_said_so(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'q.db'}", tmp_path, stop_seconds="0.5") as server:
        host, port = server.address.removeprefix("http://").split(":")
        async with asyncio.timeout(SOON):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n")
            writer.write(b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n")
            await reader.readuntil(b"100 Continue\r\n\r\n")  # it waits for the body, which never comes
            server.send(signal.SIGTERM)
            assert await asyncio.to_thread(server.wait) == 0
            writer.close()
        errors = [line["event"] for line in server.log if line["level"] == "error"]
        assert errors == ["requests_cut"]
