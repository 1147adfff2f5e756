"""Restate: a handler waits for an awakeable, somebody resolves it over HTTP. Its server flushes to disk as it does by default."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

from benchmarks.peer import ANSWER, QUESTION, measure
from support.free_port import free_port
from support.raw_http import Caller
from support.restate_server import RestateServer, running_restate

names: dict[int, asyncio.Future[str]] = {}
service = restate.Service("bench")


@service.handler()
async def ask(ctx: restate.Context, question: dict[str, Any]) -> Any:
    """Say what to resolve, and wait for it."""
    name, answered = ctx.awakeable(type_hint=dict[str, Any])
    if not names[question["number"]].done():
        names[question["number"]].set_result(name)
    return await answered


async def main(server: RestateServer) -> None:
    """Serve the handler here, measure, and end."""
    port, idle = free_port(), list[Caller]()
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.errorlog = config.accesslog = None
    serving = asyncio.create_task(serve(restate.app([service]), config))
    await asyncio.sleep(0.5)
    await server.register(port)

    async def pair() -> None:
        number = len(names)
        names[number] = asyncio.get_running_loop().create_future()
        asker, person = (idle.pop() if idle else Caller([server.ingress]) for _ in range(2))
        asked = asyncio.create_task(asker.call("POST", "/bench/ask", {**QUESTION, "number": number}))
        path = f"/restate/awakeables/{await names[number]}/resolve"
        await person.call("POST", path, ANSWER)
        if (await asked).json() != ANSWER:
            raise RuntimeError("the answer did not arrive")
        idle.extend((asker, person))

    await measure(pair)
    serving.cancel()


with tempfile.TemporaryDirectory() as folder, running_restate(Path(folder)) as started:
    asyncio.run(main(started))
