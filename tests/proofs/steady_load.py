"""A load through a load balancer while servers are changed: whatever is refused, lost or done twice is found.

Half of the clients are desks. The others send each request exactly once, over TLS: what the servers refuse, or do not answer,
is a refused request.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2

from handraise import Desk, Event, Responder, open_desk
from handraise.wire.credentials import Credentials
from support.command import Serving, serving
from support.free_port import free_port
from support.load_balancer import LoadBalancer
from support.raw_http import Listener, Message

PEOPLE = ("ana", "bob", "cleo")
AGENTS = 4
BETWEEN = 0.05
WITHIN = PATIENCE = 180.0


class Fleet:
    """Two servers on one store, which are replaced one after the other."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.ports = (free_port(), free_port())
        self.settings = {
            "poll_interval": "1",
            "heartbeat": "1",
            "drain_seconds": "0.5",
            "trusted_proxies": "127.0.0.1",
            "seal_interval": "0.2",
            **settings,
        }
        self.servers: dict[int, Serving] = {}
        self._folder = folder
        self._running: dict[int, ExitStack] = {}

    def __enter__(self) -> Self:
        for port in self.ports:
            self._start(port)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._running.values():
            each.close()

    async def roll(self, balancer: LoadBalancer, *, most: int = 2, **changes: str) -> None:
        """Give the servers these settings too: stop one with SIGTERM, start it again, and only then the next."""
        self.settings |= changes
        for port in self.ports[:most]:
            self.servers[port].send(signal.SIGTERM)
            assert await asyncio.to_thread(self.servers[port].wait) == 0
            self._running.pop(port).close()
            await asyncio.to_thread(self._start, port)
            await balancer.until_ready(port)

    def events(self) -> list[str]:
        """What every server has logged as a warning or an error."""
        return [
            f"{line['event']} {line.get('exception', '')}"
            for file in self._folder.glob("log-*")
            for line in _lines(file)
            if line["level"] in ("warning", "error", "critical")
        ]

    def _start(self, port: int) -> None:
        stack = self._running[port] = ExitStack()
        settings: dict[str, Any] = dict(self.settings)
        address = settings.pop("url")
        self.servers[port] = stack.enter_context(
            serving(address, self._folder, "--port", str(port), patience=PATIENCE, **settings)
        )


def _lines(file: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("{")
    ]


class SteadyLoad:
    """Who asks, answers and follows, and what each of them was told."""

    def __init__(self, balancer: LoadBalancer, credentials: Credentials, workspace: str) -> None:
        self.balancer = balancer
        self.credentials = credentials
        self.workspace = workspace
        self.tokens: dict[str, str] = {}
        """The key of each agent that sends its requests by hand; a test may replace one."""
        self.refused: list[str] = []
        self.told: dict[str, list[str]] = {}
        self.answered: list[str] = []
        self.seen: list[list[tuple[str, str]]] = []
        self._over = asyncio.Event()
        self._asked = 0

    def over(self) -> bool:
        """Whether nobody begins anything new."""
        return self._over.is_set()

    def end(self) -> None:
        """Let nobody begin anything new."""
        self._over.set()

    async def more(self, questions: int = 10) -> None:
        """Wait until so many more questions have been asked, answered and heard of."""
        enough = len(self.told) + questions
        async with asyncio.timeout(WITHIN):
            while len(self.told) < enough:
                await asyncio.sleep(0.01)

    async def once(
        self, http: httpx2.AsyncClient, method: str, path: str, token: str | None = None, **how: Any
    ) -> httpx2.Response | None:
        """Send a request once; None if it was refused, which is noted."""
        if token is not None:
            how["headers"] = {"authorization": f"Bearer {token}", **how.get("headers", {})}
        try:
            response = await http.request(method, path, **how)
        except httpx2.HTTPError as error:
            self.refused.append(f"{method} {path}: {error!r}")
            return None
        if response.status_code >= httpx2.codes.BAD_REQUEST:
            self.refused.append(f"{method} {path}: {response.status_code} {response.text}")
            return None
        return response

    @asynccontextmanager
    async def http(self, trusted: ssl.SSLContext) -> AsyncIterator[httpx2.AsyncClient]:
        """A client that makes a new connection for each request, as many short-lived programs do."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx2.AsyncClient(
            base_url=self.balancer.secure_address, verify=trusted, timeout=WITHIN, limits=limits
        ) as http:
            yield http

    async def _by_hand(self, name: str, http: httpx2.AsyncClient) -> None:
        """Ask and wait again and again, with requests of its own."""
        self.tokens[name] = await self.credentials.agent(self.workspace, name)
        while not self.over():
            prompt = self._next(name)
            body = {"prompt": prompt, "recipients": [PEOPLE[self._asked % len(PEOPLE)]]}
            asked = await self.once(http, "POST", "/v1/questions", self.tokens[name], json=body)
            if asked is None:
                continue
            status: dict[str, Any] = {"status": "pending"}
            while status["status"] == "pending":
                path = f"/v1/questions/{asked.json()['id']}/outcome?wait=10s"
                waited = await self.once(http, "GET", path, self.tokens[name])
                if waited is None:
                    await asyncio.sleep(0.1)
                    continue
                status = waited.json()
            self.told.setdefault(prompt, []).append(str(status["outcome"]["value"]))
            await asyncio.sleep(BETWEEN)

    async def _by_desk(self, desk: Desk, name: str) -> None:
        """Ask and wait again and again, with a desk."""
        desk = desk.scoped(asker=name)
        while not self.over():
            prompt = self._next(name)
            value = await desk.ask(prompt, recipients=[PEOPLE[self._asked % len(PEOPLE)]], key=prompt)
            self.told.setdefault(prompt, []).append(str(value))
            await asyncio.sleep(BETWEEN)

    def _next(self, name: str) -> str:
        self._asked += 1
        return f"{name} asks {self._asked}"

    async def _answers(self, person: str, http: httpx2.AsyncClient, idle: asyncio.Event) -> None:
        """Answer everything in one's inbox; nobody else does."""
        token = await self.credentials.person(self.workspace, Responder(person))
        while True:
            path = f"/v1/questions?recipient={person}&limit=20"
            page = await self.once(http, "GET", path, token)
            pending = [] if page is None else page.json()["items"]
            for each in pending:
                path, body = f"/v1/questions/{each['id']}/answer", {"value": f"{each['prompt']}!"}
                if await self.once(http, "POST", path, token, json=body) is not None:
                    self.answered.append(each["id"])
            if not pending:
                if idle.is_set():
                    return
                await asyncio.sleep(BETWEEN)

    async def _follows(self, desk: Desk, mine: list[tuple[str, str]]) -> None:
        async with aclosing(desk.follow(after="")) as events:
            async for event in events:
                mine.append((event.question_id, event.kind.value))  # noqa: PERF401 -- each at once

    @asynccontextmanager
    async def running(self, trusted: ssl.SSLContext) -> AsyncIterator[None]:
        """Load the servers while inside; then let everything end, and check that nothing was refused, lost or doubled."""
        token = await self.credentials.reader(self.workspace, "agent")
        async with AsyncExitStack() as stack:
            desks = [
                await stack.enter_async_context(
                    open_desk(self.balancer.address, credentials=self.credentials, workspace=self.workspace)
                )
                for _ in range(AGENTS // 2 + 1)
            ]
            http = await stack.enter_async_context(self.http(trusted))
            mine: list[tuple[str, str]] = []
            raw: list[tuple[str, str]] = []
            self.seen = [mine, raw]

            def hear(message: Message) -> None:
                raw.append((message.json()["question_id"], message.event))

            listener = Listener([self.balancer.address], token, hear)
            following = [
                asyncio.create_task(self._follows(desks[-1], mine)),
                asyncio.create_task(listener.run()),
            ]
            await asyncio.wait_for(listener.ready.wait(), WITHIN)
            idle = asyncio.Event()
            try:
                async with asyncio.TaskGroup() as people:
                    for person in PEOPLE:
                        people.create_task(self._answers(person, http, idle))
                    async with asyncio.TaskGroup() as agents:
                        for number, desk in enumerate(desks[:-1]):
                            agents.create_task(self._by_desk(desk, f"desk-{number}"))
                            agents.create_task(self._by_hand(f"hand-{number}", http))
                        await self.more(4)
                        try:
                            yield
                            if not self.over():
                                await self.more()
                        finally:
                            self.end()
                    idle.set()
                await self._check(desks[-1])
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)

    async def _check(self, desk: Desk) -> None:
        assert self.refused == []
        for prompt, values in self.told.items():
            assert values == [f"{prompt}!"]
        assert len(self.told) == self._asked
        assert Counter(self.answered).most_common(1)[0][1] == 1
        events: list[Event] = []
        async with asyncio.timeout(WITHIN):  # other transactions of the cluster hold the feed back
            while len(events) < 2 * len(self.answered):
                events += (await desk.feed(after=events[-1].cursor if events else None)).items
                await asyncio.sleep(0.01)
        wanted = [(event.question_id, event.kind.value) for event in events]
        assert Counter(wanted) == Counter(
            {(each, kind): 1 for each in self.answered for kind in ("asked", "answered")}
        )
        await _until(lambda: all(len(mine) >= len(wanted) for mine in self.seen))
        assert self.seen == [wanted, wanted]


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not is_so():
            await asyncio.sleep(0.01)
