"""Each alert fires in a real Prometheus when what it watches is really broken, and ends when that is mended.

Two servers run on PostgreSQL behind a proxy that can freeze. The rules are those of `deploy/monitoring/alerts.yaml`, with
spans and patience shortened as `shortened` says: what takes minutes in production takes seconds here.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx2
import pytest
import yaml

from handraise.desk_factory import open_backend
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.ports import Backend
from handraise.signing.key_files import make_key
from support.command import Serving, environment, serving
from support.database import own_store
from support.free_port import free_port
from support.issuer import Issuer
from support.webhook_receiver import Got, Receiver, Says, receiving, yes
from tests.server.conftest import bearer

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "monitoring" / "alerts.yaml"
PAGE = ROOT / "docs" / "how-to" / "respond-to-alerts.md"
SOON = 120.0
QUICK = """
import handraise.server.context as context
context._DELETE_INTERVAL = context._ROTA_INTERVAL = context._QUEUE_STATS_INTERVAL = 1.0
from handraise.cli import main
main()
"""
"""What a server does every minute, it does every second here, so that it is late sooner."""

SECRET = "whsec_" + "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0"
BEFORE_THE_FIRST_SCRAPE = ("HandraiseServerDown", "HandraiseNoServer")
FOR_GOOD = ("HandraiseSealRefused", "HandraiseSealingBehind")
"""What stays as it is until an administrator accepts the store."""
OF_A_BUSY_MACHINE = ("HandraiseEventLoopLag", "HandraiseSlow")
"""Over ten seconds instead of minutes, one pause of the machine is enough for these."""

OF_HOURS = {"HandraiseQuestionsUnanswered", "HandraiseAnswersMissing"}
"""What takes hours to come about is only tried by promtool, with made-up numbers."""

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("breaks two servers for two minutes; tests/test_monitoring.py checks the rules' names"),
    pytest.mark.timeout(900),
]


def shortened() -> dict[str, Any]:
    """The rules with ranges of 10 seconds, a patience of one, and ages of 4 seconds instead of minutes."""
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
            rule["expr"] = re.sub(r"\[\d+m\]", "[10s]", rule["expr"])
            if re.search(r"_(age|lag|due)_seconds(?!_bucket)", rule["expr"]):
                rule["expr"] = re.sub(r"> \d+$", "> 4", rule["expr"].strip())
    return rules


@dataclass
class FreezingProxy:
    """Passes bytes on, both ways, until it is frozen: then nothing comes through, and no connection ends."""

    host: str
    port: int
    address: str = ""
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            await self.flowing.wait()
            from_server, to_server = await asyncio.open_connection(self.host, self.port)
            try:
                await self._pass_both_ways(reader, to_server, from_server, writer)
            finally:
                to_server.transport.abort()
        finally:
            writer.transport.abort()

    async def _pass_both_ways(
        self,
        from_client: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
    ) -> None:
        ways = [
            asyncio.create_task(self._pass(from_client, to_server)),
            asyncio.create_task(self._pass(from_server, to_client)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while some := await source.read(65_536):
            await self.flowing.wait()
            sink.write(some)
            await sink.drain()


@asynccontextmanager
async def freezing_proxy(address: str) -> AsyncIterator[FreezingProxy]:
    """A proxy in front of PostgreSQL."""
    parts = urlsplit(address)
    proxy = FreezingProxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    proxy.flowing.set()
    tasks: set[asyncio.Task[None]] = set()

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(come, "127.0.0.1", 0)
    user = f"{parts.username}@" if parts.username else ""
    port = server.sockets[0].getsockname()[1]
    proxy.address = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))
    try:
        yield proxy
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Prometheus:
    """A real Prometheus that scrapes every second, and what it says."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.fired: set[str] = set()

    async def firing(self) -> set[str]:
        """The alerts that fire now."""
        async with httpx2.AsyncClient(timeout=SOON) as http:
            answer = (await http.get(f"{self.address}/api/v1/alerts")).json()
        now = {each["labels"]["alertname"] for each in answer["data"]["alerts"] if each["state"] == "firing"}
        self.fired |= now
        return now

    async def until_firing(
        self, *names: str, meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Wait until all of these have fired."""
        wanted = set(names)
        seen: set[str] = set()
        began = time.monotonic()
        while not wanted <= seen:
            seen |= await self.firing()
            assert time.monotonic() - began < SOON, f"{wanted - seen} did not fire; {seen} did"
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(0.2)
        print(f"{time.monotonic() - began:5.1f} s  {' '.join(sorted(wanted))}")

    async def until_quiet(self, *but: str) -> None:
        """Wait until no others fire."""
        began = time.monotonic()
        while left := await self.firing() - set(but):
            assert time.monotonic() - began < SOON, f"{left} still fire"
            await asyncio.sleep(0.2)
        print(f"{time.monotonic() - began:5.1f} s  quiet")


@asynccontextmanager
async def prometheus(folder: Path, *servers: Serving) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes these servers and evaluates the shortened rules."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.fail("This test needs Prometheus: apt-get install prometheus", pytrace=False)
    (folder / "rules.yaml").write_text(yaml.safe_dump(shortened()))
    targets = [urlsplit(each.address).netloc for each in servers]
    (folder / "prometheus.yaml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "rule_files": ["rules.yaml"],
                "scrape_configs": [{"job_name": "handraise", "static_configs": [{"targets": targets}]}],
            }
        )
    )
    port = free_port()
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 -- it is only started here
            [
                program,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait(timeout=SOON)


def first_commands() -> dict[str, str]:
    """The first command of each runbook."""
    parts = re.split(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        command = re.search(r"^```console\n\$ (.+)$", text, re.MULTILINE)
        assert command, f"{name} has no command"
        found[name] = command[1]
    return found


async def run_first_commands(server: Serving, store: str, settings: dict[str, str]) -> None:
    """Give each command to this server and its database; each must work and print something."""
    variables = environment(store, **settings) | {"SERVER": server.address}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    known: dict[str, tuple[int | None, str]] = {}
    for name, command in first_commands().items():
        if command not in known:
            process = await asyncio.create_subprocess_exec(
                "bash", "-o", "pipefail", "-c", command, env=variables,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            async with asyncio.timeout(SOON):
                said, _ = await process.communicate()
            known[command] = process.returncode, said.decode()
        code, text = known[command]
        assert code == 0, f"{name}: {command} ended with {code}:\n{text}"
        assert text.strip(), f"{name}: {command} printed nothing"


@dataclass
class Scene:
    """Two servers, what they talk to, and a Prometheus that watches them."""

    store: str
    proxy: FreezingProxy
    hook: Receiver
    witness: Receiver
    backend: Backend
    keys: dict[str, str]
    servers: tuple[Serving, Serving]
    watch: Prometheus
    http: httpx2.AsyncClient

    async def ask(self, workspace: str = "default", **options: Any) -> int:
        """Ask something, and return the status."""
        headers = bearer(self.keys[workspace])
        response = await self.http.post("/v1/questions", json={"prompt": "?", **options}, headers=headers)
        return response.status_code

    async def look(self, key: str) -> int:
        """Read with a key, and return the status."""
        return (await self.http.get("/v1/questions", headers=bearer(key))).status_code

    async def give_address(self, recipient: str, channel: str) -> None:
        """Let somebody be reached through a channel."""
        to = {"url": self.hook.url, "secret": SECRET}
        await self.backend.outbox.put_address(
            Address(workspace="default", recipient=recipient, channel=channel, id="main", to=to)
        )

    async def execute(self, sql: str) -> None:
        """Do something in the database behind the servers' backs."""
        connection = await asyncpg.connect(self.store)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


@asynccontextmanager
async def opened_scene(folder: Path) -> AsyncIterator[tuple[Scene, dict[str, str]]]:
    """The scene with everything in order, and the settings of the servers."""
    make_key(folder / "key")
    (folder / "quick.py").write_text(QUICK)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        store = await enter(own_store("postgres", folder))
        proxy = await enter(freezing_proxy(store))
        hook, witness = await enter(receiving()), await enter(receiving())
        settings: dict[str, Any] = {
            "audit_key": str(folder / "key"),
            "audit_witnesses": json.dumps([witness.url]),
            "audit_witness_allow_private": '["127.0.0.0/8"]',
            "audit_witness_interval": "1",
            "seal_interval": "1",
            "webhooks": "true",
            "webhook_allow_private": '["127.0.0.0/8"]',
            "pending_quota": "30",
        }
        backend = await enter(open_backend(store))
        issuer = Issuer(backend.directory)
        keys = {each: await issuer.agent(each, "bot") for each in ("default", "tampered", "unsealed")}
        for each in keys:
            await issuer.person(each, "ada")
        started = []
        for connections in ("3", "12"):
            own: dict[str, Any] = {**settings, "connections": connections}
            server = serving(proxy.address, folder, program=[str(folder / "quick.py")], **own)
            # In a thread: what they connect to is served by this loop.
            started.append(await asyncio.to_thread(stack.enter_context, server))
        watch = await enter(prometheus(folder, *started))
        http = await enter(httpx2.AsyncClient(timeout=SOON, base_url=started[0].address))
        a, b = started
        yield Scene(store, proxy, hook, witness, backend, keys, (a, b), watch, http), settings


async def check_that_nothing_fires(scene: Scene) -> None:
    """Everything works, and is looked at for a while."""
    for workspace in scene.keys:
        assert await scene.ask(workspace) == 201
    await scene.give_address("ada", "webhook")
    for _ in range(40):
        assert await scene.look(scene.keys["default"]) == 200
        await asyncio.sleep(0.2)
        assert await scene.watch.firing() <= {*BEFORE_THE_FIRST_SCRAPE, *OF_A_BUSY_MACHINE}
    await scene.watch.until_quiet()
    scene.watch.fired.clear()


async def break_peers(scene: Scene) -> None:
    """A webhook and a witness refuse everything, an agent asks without end, and somebody guesses keys."""

    async def refuse(got: Got) -> Says:
        del got
        return Says(500)

    async def trouble() -> None:
        await scene.ask(recipients=["ada"])
        assert await scene.look(scene.keys["default"] + "x") in (401, 429)

    scene.hook.answer = scene.witness.answer = refuse
    await scene.watch.until_firing(
        "HandraiseDeliveriesFailing",
        "HandraiseWitnessFailing",
        "HandraiseCredentialsRefused",
        "HandraiseAgentsAtQuota",
        meanwhile=trouble,
    )
    # No metric names the agent; the log does.
    log = scene.servers[0].log
    full = [each for each in log if (each["event"], each.get("status")) == ("request", 429)]
    assert ("agent:bot", "127.0.0.1") in {(each.get("caller"), each["client"]) for each in full}
    scene.hook.answer = scene.witness.answer = yes
    await scene.execute("delete from handraise.inbox where workspace = 'default'")
    await scene.execute("update handraise.deliveries set due_at = null")


async def take_a_channel_away(scene: Scene) -> None:
    """Somebody is reached through a channel that no server has any more."""
    await scene.give_address("ben", "slack")
    assert await scene.ask(recipients=["ben"]) == 201
    await scene.watch.until_firing("HandraiseOutboxStuck")
    await scene.execute("update handraise.deliveries set due_at = null")


async def take_a_person_away(scene: Scene) -> None:
    """Somebody whom a question is for may not do anything any more."""
    await scene.backend.directory.put_person("default", "cy", name="cy", email=None, role=Role.MEMBER)
    assert await scene.ask(recipients=["cy"]) == 201
    await scene.backend.directory.disable_person("default", "cy", by="test")
    await scene.watch.until_firing("HandraiseQuestionsUnanswerable")
    await scene.backend.directory.enable_person("default", "cy", by="test")
    await scene.watch.until_quiet(*OF_A_BUSY_MACHINE)


async def break_seals(scene: Scene) -> None:
    """Somebody with access to the database deletes seals, and an event cannot be read."""
    await scene.execute("delete from handraise.seals where workspace = 'tampered'")
    connection = await asyncpg.connect(scene.store)
    try:
        await connection.execute("begin; lock table handraise.seals in access exclusive mode")
        assert await scene.ask("unsealed") == 201
        await connection.execute(
            "update handraise.events set kind = 'no-such-kind' where workspace = 'unsealed'; commit"
        )
    finally:
        await connection.close()
    await scene.watch.until_firing("HandraiseSealRefused", "HandraiseSealFailing", "HandraiseSealingBehind")
    await scene.execute("update handraise.events set kind = 'asked' where workspace = 'unsealed'")
    await scene.watch.until_quiet(*FOR_GOOD, *OF_A_BUSY_MACHINE)


async def starve_a_server(scene: Scene) -> None:
    """The machine gives one server no time, again and again."""
    server = scene.servers[1]

    async def stutter() -> None:
        server.send(signal.SIGSTOP)
        await asyncio.sleep(0.6)
        server.send(signal.SIGCONT)
        await asyncio.sleep(0.3)

    await scene.watch.until_quiet(*FOR_GOOD)
    await scene.watch.until_firing("HandraiseEventLoopLag", meanwhile=stutter)
    await scene.watch.until_quiet(*FOR_GOOD)


async def lock_the_events(scene: Scene) -> None:
    """Somebody locks the table of events while a page is open, as a careless migration would."""
    # At the server with enough connections for everything else.
    place = f"{scene.servers[1].address}/v1/events"
    async with scene.http.stream("GET", place, headers=bearer(scene.keys["default"])) as stream:
        lines = stream.aiter_lines()  # kept: the stream ends with it
        assert await anext(lines) == "event: ready"
        connection = await asyncpg.connect(scene.store)
        try:
            await connection.execute("begin; lock table handraise.events in access exclusive mode")
            await scene.watch.until_firing("HandraiseFeedLag")
        finally:
            await connection.close()
        await scene.watch.until_quiet(*FOR_GOOD)


async def freeze_the_database(scene: Scene) -> None:
    """The database freezes while agents ask, and goes on later."""
    scene.proxy.flowing.clear()

    async def ask() -> None:
        with suppress(httpx2.HTTPError):
            await scene.ask()

    asking = [asyncio.create_task(ask()) for _ in range(30)]

    async def go_on() -> None:
        if len(asking) < 200:
            asking.append(asyncio.create_task(ask()))

    await scene.watch.until_firing(
        *("HandraiseStoreLost", "HandraiseNotReady", "HandraisePoolExhausted"),
        *("HandraiseSweepLate", "HandraiseCountsOld", "HandraiseTaskFailing"),
        *("HandraiseErrorRate", "HandraiseSlow"),
        meanwhile=go_on,
    )
    scene.proxy.flowing.set()
    await asyncio.wait(asking, timeout=SOON)
    # As many questions as got through may be as many as the agent may have.
    await scene.execute("delete from handraise.inbox where workspace = 'default'")
    await scene.watch.until_quiet(*FOR_GOOD)
    for server in scene.servers:
        events = [line["event"] for line in server.log if line["event"].startswith("store_")]
        assert events.index("store_lost") < events.index("store_back")


async def kill_the_servers(scene: Scene) -> None:
    """One server is killed, then the other one too."""
    a, b = scene.servers
    b.send(signal.SIGKILL)
    await scene.watch.until_firing("HandraiseServerDown")
    assert "HandraiseNoServer" not in await scene.watch.firing()
    a.send(signal.SIGKILL)
    await scene.watch.until_firing("HandraiseNoServer")


async def test_every_alert_fires_when_what_it_watches_breaks_and_ends_when_it_is_mended(
    tmp_path: Path,
) -> None:
    names = {rule["alert"] for group in shortened()["groups"] for rule in group["rules"]}
    async with opened_scene(tmp_path) as (scene, settings):
        await check_that_nothing_fires(scene)
        assert set(first_commands()) == names
        await run_first_commands(scene.servers[0], scene.store, settings)
        for damage in (
            break_peers,
            take_a_channel_away,
            take_a_person_away,
            break_seals,
            starve_a_server,
            lock_the_events,
            freeze_the_database,
            kill_the_servers,
        ):
            await damage(scene)
        assert scene.watch.fired == names - OF_HOURS
