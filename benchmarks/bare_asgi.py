"""A bare ASGI application that coalesces the desk's two statements and looks up credentials, and does nothing else.

    python -m benchmarks.bare_asgi ADDRESS

Uvicorn with httptools and uvloop, no framework. Every request looks up its own key or session; the look-ups, asks and
answers of concurrent requests are one statement each. No rules, no forms, no log. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import asyncpg
import uvicorn

from benchmarks import bare
from benchmarks.harness import loop_factory
from handraise.desk.batcher import Batcher
from handraise.desks import uuid7_ids
from handraise.wire.credentials import Token, read_token

_BATCH = 64
_LOOK_UP = """
select digest from handraise.agent_keys
where workspace = 'bench' and digest = any($1) and revoked_at is null
union all
select digest from handraise.sessions
where workspace = 'bench' and digest = any($1) and expires_at > now()
"""

_Message = MutableMapping[str, Any]


class BareApplication:
    """The application. Each kind of statement has a connection of its own."""

    def __init__(self, pair: bare.Pair, connections: Sequence[Any]) -> None:
        asking, answering, looking = connections
        self._new_id = uuid7_ids()
        self._ask = Batcher[str, None](_sender(pair.ask, asking), _BATCH)
        self._answer = Batcher[str, None](_sender(pair.answer, answering), _BATCH)
        self._looking = looking
        self._is_known = Batcher[Token, bool](self._look_up, 1_000)

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Serve one request."""
        body = json.loads((await receive())["body"])
        given = dict(scope["headers"]).get(b"authorization", b"")
        token = read_token(given[7:].decode())
        status, found = 401, {"detail": "no valid key or session"}
        if token is not None and await self._is_known(token):
            status, found = await self._respond(scope["path"], body)
        content = json.dumps(found, separators=(",", ":")).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _respond(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/questions":
            question_id = self._new_id()
            await self._ask(question_id)
            return 201, {"id": question_id, "prompt": body["prompt"], "status": "pending"}
        question_id = path.split("/")[3]
        await self._answer(question_id)
        return 200, {"id": question_id, "status": "answered", "value": body["value"]}

    async def _look_up(self, tokens: Sequence[Token]) -> Sequence[bool]:
        rows = await self._looking.fetch(_LOOK_UP, list({token.digest for token in tokens}))
        known = {row["digest"] for row in rows}
        return [token.digest in known for token in tokens]


def _sender(sent: bare.Sent, connection: Any) -> Callable[[Sequence[str]], Awaitable[Sequence[None]]]:
    async def send(ids: Sequence[str]) -> Sequence[None]:
        await connection.fetch(sent.sql, *sent.arguments([sent.row(each) for each in ids]))
        return [None] * len(ids)

    return send


async def serve(address: str) -> None:
    """Serve until killed."""
    pair = await bare.desk_pair(address, recipients=["ana0"], by="ana0")
    connections = [
        await asyncpg.connect(
            address, server_settings=bare.SETTINGS, max_cacheable_statement_size=bare.MAX_CACHEABLE_SIZE
        )
        for _ in range(3)
    ]
    application = BareApplication(pair, connections)
    config = uvicorn.Config(
        application,
        port=0,
        http="httptools",
        lifespan="off",
        log_level="warning",
        access_log=False,
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
