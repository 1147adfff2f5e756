"""awaithumans: a task is created, completed and read over its HTTP API. On the same PostgreSQL.

Its long poll looks once a second; here the agent reads after the task is complete, which is the best case. Install it
with `pip install "awaithumans[server]" "psycopg[binary]"`; it does not ask for the latter by itself.
"""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.peer import ANSWER, QUESTION, measure
from support.raw_http import Caller

TOKEN = secrets.token_hex(16)
SCHEMA = {"type": "object", "properties": {"value": {"type": "string"}, "by": {"type": "string"}}}


@contextmanager
def server() -> Iterator[str]:
    """Start its server at a free port; return its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "AWAITHUMANS_DATABASE_URL": sys.argv[1],
        "AWAITHUMANS_ADMIN_API_TOKEN": TOKEN,
        "AWAITHUMANS_PAYLOAD_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("="),
    }
    program = str(Path(sys.executable).parent / "awaithumans")
    process = subprocess.Popen(
        [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--log-level", "error"],
        env={**os.environ, **settings},
        stdout=subprocess.DEVNULL,
        stderr=sys.stderr,
    )
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError("its server did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def main(address: str) -> None:
    """Measure, and end."""
    idle: list[Caller] = []
    # Its server has fifteen connections to the database, and fails if there are more requests than that.
    turn = asyncio.Semaphore(12)

    async def pair() -> None:
        async with turn:
            await one_pair()

    async def one_pair() -> None:
        caller = idle.pop() if idle else Caller([address], TOKEN)
        task = {
            "task": QUESTION["prompt"],
            "payload": QUESTION,
            "payload_schema": {"type": "object"},
            "response_schema": SCHEMA,
            "timeout_seconds": 900,
            "idempotency_key": uuid.uuid4().hex,
        }
        created = await caller.call("POST", "/api/tasks", task)
        path = f"/api/tasks/{created.json()['id']}"
        completed = await caller.call("POST", f"{path}/complete", {"response": ANSWER})
        polled = await caller.call("GET", f"{path}/poll?timeout=5")
        if polled.json().get("response") != ANSWER:
            raise RuntimeError(f"the answer did not arrive: {completed} {polled}")
        idle.append(caller)

    await measure(pair)


with server() as started:
    asyncio.run(main(started))
