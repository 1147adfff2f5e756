"""The bare engine doing the desk's work: the same statements and rows, without the desk.

`single` makes one call a statement, each caller on a connection of its own; `coalesced` gathers what
concurrent callers give into one statement on one connection, in twenty lines and without any rule.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from handraise import Choice, Responder, uuid7_ids
from handraise.backends.postgres.connecting import SETTINGS as SETTINGS  # noqa: PLC0414 -- the others connect the same way
from handraise.backends.rows import draft_values, move_values, posted_question
from handraise.backends.statements import load_statements
from handraise.model.lifecycle import answering
from handraise.model.questions import Draft

STATEMENTS = load_statements("handraise.backends.postgres")

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]

_FORM = Choice.of("Blue-green", "Canary", "Rolling")


class Rows:
    """Rows like the desk's, made in advance so that only the engine's work is measured."""

    def __init__(self) -> None:
        self._new_id = uuid7_ids()
        draft = Draft(id="x", workspace="bench", asker="agent", prompt="Which strategy?", form=_FORM)
        question = posted_question(draft, asked_at=None)  # type: ignore[arg-type]  # never read
        self._ask = {**draft_values(draft), "now": None}
        move = answering(question, Responder("ana"), "Canary")
        self._answer = {**move_values(move), "now": None}

    def pair(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters of one ask and of its answer."""
        question_id = self._new_id()
        return {**self._ask, "id": question_id}, {**self._answer, "id": question_id}


async def single(address: str, callers: int, seconds: float) -> float:
    """Pairs a second with one statement a call and a connection for each caller."""
    connections = [await asyncpg.connect(address, server_settings=SETTINGS) for _ in range(callers)]
    rows = Rows()

    def on(connection: asyncpg.Connection[asyncpg.Record]) -> Call:
        async def call(name: str, row: dict[str, Any]) -> None:
            await connection.fetch(STATEMENTS[name].numbered, *parameters(name, [row]))

        return call

    try:
        return await _pairs([on(connection) for connection in connections], rows, seconds)
    finally:
        for connection in connections:
            await connection.close()


async def coalesced(address: str, callers: int, seconds: float) -> float:
    """Pairs a second with concurrent calls gathered into one statement, on one connection."""
    connection = await asyncpg.connect(address, server_settings=SETTINGS)
    waiting: dict[str, list[tuple[dict[str, Any], asyncio.Future[None]]]] = {"insert": [], "settle": []}
    stirred = asyncio.Event()

    async def work() -> None:
        while True:
            await stirred.wait()
            stirred.clear()
            for name, gathered in waiting.items():
                while gathered:
                    batch, gathered[:] = gathered[:500], gathered[500:]
                    rows = [row for row, _ in batch]
                    await connection.fetch(STATEMENTS[name].numbered, *parameters(name, rows))
                    for _, done in batch:
                        done.set_result(None)

    async def call(name: str, row: dict[str, Any]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting[name].append((row, done))
        stirred.set()
        await done

    worker = asyncio.create_task(work())
    try:
        return await _pairs([call] * callers, Rows(), seconds)
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await connection.close()


async def _pairs(calls: list[Call], rows: Rows, seconds: float) -> float:
    count = itertools.count()
    until = time.perf_counter() + seconds

    async def caller(call: Call) -> None:
        while time.perf_counter() < until:
            ask, answer = rows.pair()
            await call("insert", ask)
            await call("settle", answer)
            next(count)

    began = time.perf_counter()
    await asyncio.gather(*map(caller, calls))
    return next(count) / (time.perf_counter() - began)


def parameters(name: str, rows: list[dict[str, Any]]) -> list[object]:
    """Rows as the arrays that a batched statement takes."""
    columns: dict[str, Any] = {column: [row[column] for row in rows] for column in rows[0]}
    return STATEMENTS[name].arguments(**{**columns, "now": None})


def pgbench_script() -> str:
    """The same pair for pgbench, with literals where asyncpg sends parameters."""
    ask, answer = Rows().pair()
    question_id = "(md5(:n::text || :client_id::text))"
    return "\\set n random(1, 9000000000000000)\n" + "\n".join(
        _with_literals(name, {**row, "id": question_id})
        for name, row in (("insert", ask), ("settle", answer))
    )


def _with_literals(name: str, row: dict[str, Any]) -> str:
    sql = STATEMENTS[name].named
    for parameter in sorted(row, key=len, reverse=True):
        value = row[parameter]
        if parameter == "now":
            literal = "null"
        elif parameter == "id":
            literal = f"array[{value}]"
        elif value is None:
            literal = "array[null]"
        elif isinstance(value, (bool, int, float)):
            literal = f"array[{json.dumps(value)}]"
        else:
            # A colon before a letter or a digit is a variable to pgbench, also inside a text.
            quoted = str(value).replace("'", "''").replace('":', '": ')
            literal = f"array['{quoted}']"
        sql = sql.replace(f":{parameter}::", f"{literal}::")
    return " ".join(sql.split())
