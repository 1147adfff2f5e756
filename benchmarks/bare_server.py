"""A bare FastAPI server that writes the rows that the desk writes, with plain SQL for one question, and nothing else.

    python -m benchmarks.bare_server ADDRESS

One route asks, one answers, one waits for an outcome in a long poll, one streams what was answered. No
credentials, no rules, no messages to other processes: waits and streams are woken in this process. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import JSONResponse, StreamingResponse

from benchmarks import bare
from benchmarks.harness import loop_factory
from handraise.desks import uuid7_ids


class Ask(BaseModel):
    """What an agent posts."""

    prompt: str
    choices: list[str] = []
    recipients: list[str] = []
    context: dict[str, Any] = {}
    conversation: str | None = None
    key: str | None = None
    expires_in: float | None = None


class Answer(BaseModel):
    """What a person says."""

    value: Any


def bare_app(pool: asyncpg.Pool[asyncpg.Record], pair: tuple[str, str]) -> FastAPI:
    """The routes."""
    app = FastAPI()
    new_id = uuid7_ids()
    asking, answering = pair
    waits: dict[str, asyncio.Future[Any]] = {}
    streams: set[asyncio.Queue[str]] = set()

    @app.post("/v1/questions", status_code=201)
    async def ask(body: Ask) -> JSONResponse:
        question_id = new_id()
        await pool.fetch(asking, question_id)
        return JSONResponse({"id": question_id, "prompt": body.prompt, "status": "pending"}, 201)

    @app.post("/v1/questions/{question_id}/answer")
    async def answer(question_id: str, body: Answer) -> JSONResponse:
        await pool.fetch(answering, question_id)
        if question_id in waits:
            waits.pop(question_id).set_result(body.value)
        for stream in streams:
            stream.put_nowait(question_id)
        return JSONResponse({"id": question_id, "status": "answered", "value": body.value})

    @app.get("/v1/questions/{question_id}/outcome")
    async def outcome(question_id: str) -> JSONResponse:
        waits[question_id] = asyncio.get_running_loop().create_future()
        return JSONResponse({"status": "answered", "value": await waits[question_id]})

    @app.get("/v1/events")
    async def events() -> StreamingResponse:
        stream: asyncio.Queue[str] = asyncio.Queue()
        streams.add(stream)

        async def told() -> AsyncIterator[str]:
            yield "event: ready\ndata: {}\n\n"
            while True:
                data = json.dumps({"question_id": await stream.get(), "kind": "answered"})
                yield f"id: 1\nevent: answered\ndata: {data}\n\n"

        return StreamingResponse(told(), media_type="text/event-stream")

    return app


async def serve(address: str) -> None:
    """Serve until killed."""
    written = await bare.plain_pair(address, await bare.desk_pair(address, recipients=["ana0"], by="ana0"))
    asking, answering = (sql.replace(bare.ID, "$1::text") for sql in written)
    pool = await asyncpg.create_pool(
        address,
        min_size=4,
        max_size=8,
        server_settings=bare.SETTINGS,
        max_cacheable_statement_size=bare.MAX_CACHEABLE_SIZE,
    )
    config = uvicorn.Config(
        bare_app(pool, (asking, answering)), port=0, log_level="warning", access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 -- it has no event for that
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(sys.argv[1]))
