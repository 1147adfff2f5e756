"""The proxies' settings on the page about servers: they find the workspace in what clients send, and notice a server that stops."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
import yaml

from handraise.desk_factory import open_backend
from handraise.wire.credentials import TokenKind, make_token
from support.command import Serving, serving
from support.database import own_store
from support.free_port import free_port
from support.issuer import Issuer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-server.md"
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
WORKSPACES = ["w", "acme", "ä ☃ 🙋", "a_b", "x" * 500]
ROOT = PAGE.parents[2]
DRAIN = re.findall(r"HANDRAISE_DRAIN_SECONDS=(\d+)\n", PAGE.read_text())
NAMES = ("one", "two")
CLIENTS = 8


def nginx_pattern(variable: str) -> re.Pattern[str]:
    """The pattern of an nginx map, whose `~*` ignores case."""
    [block] = [each for each in BLOCKS if "hash $workspace consistent;" in each]
    found = re.search(rf'map \$\w+ \${variable} {{\n\s+"~(\*?)(.+)"\s+\$\w+;', block)
    assert found is not None
    return re.compile(found[2].replace("(?<", "(?P<"), re.IGNORECASE if found[1] else 0)


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_nginx_finds_the_same_workspace_in_keys_and_sessions(workspace: str) -> None:
    found = set()
    for kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.SESSION):
        for scheme in ("Bearer", "bearer"):
            sent = f"{scheme} {make_token(kind, workspace, bytes(range(32)))}"
            match = nginx_pattern("workspace_of_key").search(sent)
            assert match is not None
            found.add(match["key_workspace"])
    for cookie in ("handraise", "__Host-handraise", "time_zone=UTC; __Host-handraise"):
        sent = f"{cookie}={make_token(TokenKind.SESSION, workspace, bytes(32))}; other=1"
        match = nginx_pattern("workspace_of_session").search(sent)
        assert match is not None
        found.add(match["session_workspace"])
    assert len(found) == 1
    others = {make_token(TokenKind.AGENT, each, bytes(32)).split("_")[1] for each in WORKSPACES}
    assert found < others, "workspaces differ"


@pytest.mark.parametrize("workspace", WORKSPACES)
def test_haproxy_finds_the_workspace_in_the_second_field(workspace: str) -> None:
    [block] = [each for each in BLOCKS if "balance hash var(txn.workspace)" in each]
    assert "req.hdr(authorization),field(2,_)" in block
    assert "req.cook(__Host-handraise),field(2,_)" in block
    fields = {
        sent.split("_")[1]
        for kind in (TokenKind.AGENT, TokenKind.READER, TokenKind.SESSION)
        for sent in (
            f"Bearer {make_token(kind, workspace, bytes(32))}",
            make_token(kind, workspace, bytes(32)),
        )
    }
    assert len(fields) == 1


def test_both_hash_consistently_go_on_and_keep_metrics_from_strangers() -> None:
    page = "\n".join(BLOCKS)
    assert "hash-type consistent" in page
    assert "option redispatch 1" in page, "requests to a server that has just died fail without it"
    assert page.count("/metrics") == 2


def test_a_server_drains_for_longer_than_the_page_s_proxy_needs_to_notice() -> None:
    [(inter, fall)] = re.findall(r"default-server check inter (\d+)s fall (\d+)", "\n".join(BLOCKS))
    [drain] = DRAIN
    of_one_check = 2
    assert int(drain) > int(inter) * int(fall) + of_one_check
    assert int(drain) > 2 * 3 + of_one_check, "it is enough for the defaults of HAProxy too"
    values = yaml.safe_load((ROOT / "deploy" / "helm" / "handraise" / "values.yaml").read_text())
    assert str(values["drainSeconds"]) == drain
    assert (
        f"set `HANDRAISE_DRAIN_SECONDS` to {drain},"
        in (ROOT / "docs" / "reference" / "settings.md").read_text()
    )


@contextmanager
def haproxy(folder: Path, ports: list[int]) -> Iterator[str]:
    """HAProxy with the page's example, in front of servers at these ports."""
    port = free_port()
    [block] = [each for each in BLOCKS if "balance hash var(txn.workspace)" in each]
    changes = {
        "bind :443 ssl crt /etc/ssl/handraise.pem": f"bind 127.0.0.1:{port}",
        "    server three 10.0.0.3:8765\n": "",
    } | {f"10.0.0.{number}:8765": f"127.0.0.1:{each}" for number, each in enumerate(ports, 1)}
    for old, new in changes.items():
        assert block.count(old) == 1, old
        block = block.replace(old, new)
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    assert program is not None, "This needs HAProxy. Run: apt-get install haproxy"
    file = folder / "haproxy.cfg"
    file.write_text(f"global\n    stats socket {folder}/admin.sock mode 600 level admin\n{block}")
    with (folder / "haproxy.log").open("w") as log:
        process = subprocess.Popen([program, "-f", str(file), "-db"], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def until_up(folder: Path, name: str) -> None:
    """Wait until HAProxy sends requests to this server."""
    async with asyncio.timeout(60):
        while True:
            with suppress(FileNotFoundError, ConnectionError):  # it has just begun
                reader, writer = await asyncio.open_unix_connection(str(folder / "admin.sock"))
                writer.write(b"show stat\n")
                rows = [line.split(",") for line in (await reader.read()).decode().splitlines()]
                writer.close()
                if any(row[:2] == ["handraise", name] and row[17] == "UP" for row in rows):
                    return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def clients(address: str, keys: list[str]) -> AsyncIterator[list[str]]:
    """Clients that send each request once while this lasts; what was refused."""
    refused: list[str] = []
    over = asyncio.Event()

    async def one(key: str, kept: int) -> None:
        limits = httpx2.Limits(max_keepalive_connections=kept)
        given = {"authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(
            base_url=address, headers=given, timeout=60, limits=limits, trust_env=False
        ) as http:
            while not over.is_set():
                for method, path, body in (
                    ("POST", "/v1/questions", {"prompt": "Which?"}),
                    ("GET", "/v1/questions?limit=1", None),
                ):
                    try:
                        response = await http.request(method, path, json=body)
                        if response.is_error:
                            refused.append(f"{method}: {response.status_code} {response.text[:80]}")
                    except httpx2.HTTPError as error:
                        refused.append(f"{method}: {error!r}")
                    await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        for number, key in enumerate(keys):
            group.create_task(one(key, kept=number % 2))
        try:
            yield refused
        finally:
            over.set()


@pytest.mark.slow("replaces two servers, each of which drains for ten seconds")
@pytest.mark.timeout(400)
async def test_no_request_is_refused_while_servers_behind_the_page_s_haproxy_are_replaced(
    tmp_path: Path,
) -> None:
    ports = [free_port() for _ in NAMES]
    [drain] = DRAIN
    settings = {"drain_seconds": drain, "trusted_proxies": "127.0.0.1", "pending_quota": "0"}

    async with own_store("postgres", tmp_path) as store:

        def start(stack: ExitStack, port: int) -> Serving:
            return stack.enter_context(
                serving(store, tmp_path, "--port", str(port), patience=120, **settings)
            )

        with ExitStack() as everything:
            stacks = [everything.enter_context(ExitStack()) for _ in NAMES]
            servers = [
                await asyncio.to_thread(start, stack, port) for stack, port in zip(stacks, ports, strict=True)
            ]
            address = everything.enter_context(haproxy(tmp_path, ports))
            for name in NAMES:
                await until_up(tmp_path, name)
            async with open_backend(store) as backend:
                issuer = Issuer(backend.directory)
                keys = [await issuer.agent(f"workspace-{number}", "bot") for number in range(CLIENTS)]
            async with clients(address, keys) as refused:
                for stack, name, port, server in zip(stacks, NAMES, ports, servers, strict=True):
                    server.send(signal.SIGTERM)
                    assert await asyncio.to_thread(server.wait) == 0
                    stack.close()
                    await asyncio.to_thread(start, stack, port)
                    await until_up(tmp_path, name)
            assert refused == []
