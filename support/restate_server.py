"""Our own Restate server."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

INSTALLED = Path(__file__).parent.parent / ".cache" / "restate"
SOON = 40.0


@dataclass
class RestateServer:
    """A running Restate."""

    ingress: str
    admin: str

    async def register(self, port: int) -> None:
        """Register the services at this port."""
        body = {"uri": f"http://127.0.0.1:{port}", "force": True}
        async with httpx2.AsyncClient(timeout=SOON) as client:
            (await client.post(f"{self.admin}/deployments", json=body)).raise_for_status()

    async def send(self, handler: str, *argument: Any, **more: Any) -> str:
        """Start an invocation and get its id."""
        async with httpx2.AsyncClient(timeout=SOON) as client:
            body = {"json": argument[0]} if argument else {}
            sent = await client.post(f"{self.ingress}/{handler}/send", **body, **more)
            sent.raise_for_status()
            return str(sent.json()["invocationId"])

    async def result(self, invocation: str) -> httpx2.Response:
        """Wait for the result of an invocation."""
        async with httpx2.AsyncClient(timeout=SOON) as client:
            return await client.get(f"{self.ingress}/restate/invocation/{invocation}/attach")

    async def query(self, sql: str) -> list[dict[str, Any]]:
        """Ask the server about itself."""
        async with httpx2.AsyncClient(timeout=SOON, headers={"accept": "application/json"}) as client:
            found = await client.post(f"{self.admin}/query", json={"query": sql})
            found.raise_for_status()
            rows: list[dict[str, Any]] = found.json()["rows"]
            return rows

    async def awakeable(self, invocation: str, how: str) -> httpx2.Response:
        """Resolve or reject the awakeable that this invocation's question names."""
        async with httpx2.AsyncClient(timeout=SOON) as client:
            return await client.post(f"{self.ingress}/restate/awakeables/{invocation}/{how}", json="forged")


@contextmanager
def running_restate(folder: Path) -> Iterator[RestateServer]:
    """Our own Restate server, on its own ports."""
    binary = next(INSTALLED.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"), None)
    assert binary, f"These tests need Restate: npm install --prefix {INSTALLED} @restatedev/restate-server"
    settings = {
        "RESTATE_BASE_DIR": str(folder),
        "RESTATE_USE_RANDOM_PORTS": "true",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "1",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_DISABLE_ANSI_CODES": "true",
        "RESTATE_DEFAULT_RETRY_POLICY__MAX_INTERVAL": "1s",
    }
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [binary, "--no-logo"], env={**os.environ, **settings}, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        ports = _ports(log, process)
        yield RestateServer(*(f"http://127.0.0.1:{port}" for port in ports))
    finally:
        process.kill()
        process.wait()


def _ports(log: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The address at which the server says that it listens, as soon as it is ready."""
    pattern = r"server_name: ([\w-]+)\s+server\.address: \S+\s+server\.port: (\d+)"
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        text = log.read_text()
        found = dict(re.findall(pattern, text))
        if {"http-ingress-server", "admin-api-server"} <= found.keys() and "became Leader" in text:
            return found["http-ingress-server"], found["admin-api-server"]
        time.sleep(0.02)
    raise AssertionError(f"Restate did not start:\n{log.read_text()}")
