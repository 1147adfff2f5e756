"""The bare engine doing the desk's work: the statements that the desk itself sends, without the desk.

They are recorded while a desk asks and answers (`desk_pair`), so the bare engine writes the same rows by the same SQL,
even if the desk changes later. `single` makes one call a statement, each caller on its own connection;
`coalesced` gathers the calls of concurrent callers into one statement, in thirty lines and without any rule; `pgbench`
does without Python, and also with the plain SQL for one question that somebody would write by hand (`plain_pair`).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar
from unittest import mock

import asyncpg

from benchmarks.harness import Run, rate
from handraise import Desk, Responder, open_desk
from handraise.backends.postgres.connections import MAX_CACHEABLE_SIZE as MAX_CACHEABLE_SIZE  # noqa: PLC0414 -- the same
from handraise.backends.postgres.connections import SETTINGS as SETTINGS  # noqa: PLC0414 -- all connect the same way
from handraise.desks import uuid7_ids

CHOICES = ["Blue-green", "Canary", "Rolling"]
QUESTION: dict[str, Any] = {
    "prompt": "Which strategy?",
    "choices": CHOICES,
    "recipients": ["ana"],
    "conversation": "release 7.2",
    "context": {
        "Build": "7.2.0 of 19 November, 41 changes since 7.1.4, two of them in the database's schema",
        "Tests": "12,834 passed, none skipped; the load test of last night was 4 % faster than 7.1.4",
        "Rollback": "possible until the second migration is applied, in about six minutes",
    },
}
"""What every benchmark asks, with a key of its own: a question as agents ask it."""
EXPIRES_IN = timedelta(days=1)
CLIENTS = (4, 8, 16, 32)
"""The numbers of clients with which pgbench is tried; the best of them counts."""

ID = "(0 || :began::text || lpad(:i::text, 17, '0') || lpad(:client_id::text, 4, '0'))"
"""The id of a question for pgbench: as long as the desk's, and growing with time like it."""

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Sent:
    """A statement that the desk sent about one question: its arrays have an element for each question of a batch."""

    sql: str
    values: Row
    batched: tuple[bool, ...]
    named: tuple[int, ...]
    """The places of the question's id among the values."""

    @classmethod
    def of(cls, sql: str, arguments: Sequence[Any], question_id: str) -> Sent:
        """What was sent, given the desk's id of the question."""
        batched = tuple(isinstance(each, list) for each in arguments)
        values = tuple(each[-1] if isinstance(each, list) else each for each in arguments)
        named = tuple(place for place, value in enumerate(values) if value == question_id)
        hidden = [value for value in values if isinstance(value, str) and question_id in value]
        if not named or len(hidden) != len(named):
            raise AssertionError(f"this statement cannot be made for another question: {sql}")
        return cls(sql, values, batched, named)

    def row(self, question_id: str) -> Row:
        """The values for another question."""
        values = list(self.values)
        for place in self.named:
            values[place] = question_id
        return tuple(values)

    def arguments(self, rows: Sequence[Row]) -> list[Any]:
        """Rows as the arrays that the statement takes."""
        columns = zip(*rows, strict=True)
        return [
            list(column) if many else column[0] for column, many in zip(columns, self.batched, strict=True)
        ]


class Statement(NamedTuple):
    """Any statement that the desk sent, with its arguments."""

    sql: str
    arguments: tuple[Any, ...]


class Pair(NamedTuple):
    """The two statements of an ask and its answer."""

    ask: Sent
    answer: Sent


async def desk_pair(
    address: str, *, workspace: str = "bench", by: str | Responder = "ana", **options: Any
) -> Pair:
    """What a desk sends to ask and to answer."""
    ids = ids_known_before()
    async with open_desk(address, workspace=workspace, new_id=ids.pop) as desk:
        with recorded() as sent:
            question_id = await _last_of_a_batch(desk, ids, options)
            await desk.answer(question_id, "Canary", by=by)
    return Pair(_sent(sent, "insert into", question_id), _sent(sent, "update", question_id))


async def desk_ask(address: str, **options: Any) -> Sent:
    """What a desk sends to ask."""
    ids = ids_known_before()
    async with open_desk(address, workspace="bench", new_id=ids.pop) as desk:
        with recorded() as sent:
            question_id = await _last_of_a_batch(desk, ids, options)
    return _sent(sent, "insert into", question_id)


def ids_known_before() -> list[str]:
    """Ids for a desk that takes the last one first: a question whose key is its id can be made for any other id."""
    new_id = uuid7_ids()
    return [new_id() for _ in range(20)][::-1]


async def _last_of_a_batch(desk: Desk, ids: Sequence[str], options: dict[str, Any]) -> str:
    """The first goes out alone, the others in a batch, as 256 callers would get it."""
    asked = {**QUESTION, "expires_in": EXPIRES_IN, **options}
    posted = [desk.post(**asked, key=key) for key in reversed(ids[-3:])]
    return (await asyncio.gather(*posted))[-1].id


def _sent(statements: Sequence[Statement], verb: str, question_id: str) -> Sent:
    *_, (sql, arguments) = (each for each in statements if f"{verb} handraise.questions" in each.sql)
    return Sent.of(sql, arguments, question_id)


@contextmanager
def recorded() -> Iterator[list[Statement]]:
    """Every statement with rows that is sent meanwhile, with its arguments."""
    sent: list[Statement] = []
    fetch = asyncpg.Connection.fetch

    async def recording(self: Any, query: str, *arguments: Any, **more: Any) -> Any:
        sent.append(Statement(query, arguments))
        return await fetch(self, query, *arguments, **more)

    with mock.patch.object(asyncpg.Connection, "fetch", recording):
        yield sent


@asynccontextmanager
async def connected(address: str, count: int) -> Any:
    """Connections with the desk's settings."""
    opened = [
        await asyncpg.connect(
            address, server_settings=SETTINGS, max_cacheable_statement_size=MAX_CACHEABLE_SIZE
        )
        for _ in range(count)
    ]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()


async def single(address: str, work: Sequence[Sent], callers: int, seconds: float) -> float:
    """How often a second all statements of `work` are made for a new question, a connection for each caller."""
    new_id = uuid7_ids()
    async with connected(address, callers) as connections:

        def on(connection: Any) -> Callable[[], Awaitable[None]]:
            async def call() -> None:
                question_id = new_id()
                for sent in work:
                    await connection.fetch(sent.sql, *sent.arguments([sent.row(question_id)]))

            return call

        return await rate([on(connection) for connection in connections], seconds)


async def coalesced(
    address: str,
    work: Sequence[Sent],
    callers: int,
    seconds: float,
    *,
    connections: int = 1,
    at_most: int = 500,
) -> float:
    """The same with concurrent calls gathered: calls that come while a batch commits make up the next batch."""
    async with coalescing(address, work, connections=connections, at_most=at_most) as call:
        return await rate([call] * callers, seconds)


@asynccontextmanager
async def coalescing(
    address: str, work: Sequence[Sent], *, connections: int = 1, at_most: int = 500
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A function that makes all statements of `work` for a new question, each in a batch with those of other callers."""
    new_id = uuid7_ids()
    waiting: dict[Sent, list[tuple[Row, asyncio.Future[None]]]] = {sent: [] for sent in work}
    stirred = asyncio.Event()

    async def keep_sending(connection: Any) -> None:
        while True:
            await stirred.wait()
            stirred.clear()
            while any(waiting.values()):
                for sent, gathered in waiting.items():
                    batch = gathered[:at_most]
                    del gathered[:at_most]
                    if batch:
                        await connection.fetch(sent.sql, *sent.arguments([row for row, _ in batch]))
                        for _, done in batch:
                            done.set_result(None)

    async def call() -> None:
        question_id = new_id()
        for sent in work:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting[sent].append((sent.row(question_id), done))
            stirred.set()
            await done

    # In a group, so that a failing statement ends all of it: otherwise no caller would know.
    async with connected(address, connections) as opened, asyncio.TaskGroup() as group:
        sending = [group.create_task(keep_sending(each)) for each in opened]
        yield call
        for task in sending:
            task.cancel()


def clients_for(run: Run) -> tuple[int, ...]:
    """The numbers of clients with which pgbench can be tried here: none if it is not installed."""
    if shutil.which("pgbench"):
        return CLIENTS
    run.remark("pgbench is not installed: left out")
    return ()


async def pgbench(address: str, work: Sequence[Sent | str], clients: int, seconds: float) -> float:
    """The same by pgbench, for whole seconds. A statement may also be a text in which pgbench finds `ID`."""
    statements = [each if isinstance(each, str) else _for_pgbench(each) for each in work]
    script = f"\\set i :i + 1\n{';'.join(statements)};\n"
    settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items() if " " not in value)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        variables = ("-D", "i=0", "-D", f"began={time.time_ns() // 1_000_000:014}")
        command = (
            "pgbench",
            "-n",
            "-M",
            "prepared",
            "-f",
            file.name,
            "-c",
            str(clients),
            "-j",
            "2",
            *variables,
        )
        process = await asyncio.create_subprocess_exec(
            *(*command, "-T", str(max(1, round(seconds))), address),
            env={**os.environ, "PGOPTIONS": settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        printed, said = await process.communicate()
    found = re.search(r"^tps = ([\d.]+)", printed.decode(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pgbench failed: {said.decode()}")
    return float(found[1])


async def plain_pair(address: str, pair: Pair) -> tuple[str, str]:
    """An ask and its answer as somebody would write them for one question, by hand: the same rows, and no rule.

    The columns that differ from their defaults are taken from the rows of a question that the desk's statements wrote.
    """
    question_id = uuid7_ids()()
    async with connected(address, 1) as (connection,):
        await connection.fetch(pair.ask.sql, *pair.ask.arguments([pair.ask.row(question_id)]))
        asked = {
            table: await _row(connection, table, question_id) for table in ("questions", "inbox", "events")
        }
        await connection.fetch(pair.answer.sql, *pair.answer.arguments([pair.answer.row(question_id)]))
        settled = await _row(connection, "questions", question_id)
        answered = await _row(connection, "events", question_id)
    changed = {name: value for name, value in settled.items() if asked["questions"].get(name) != value}
    question, inbox, event = (_insert(table, row) for table, row in asked.items())
    values = ", ".join(f"{name} = {value}" for name, value in changed.items())
    workspace = f"workspace = {settled['workspace']}"
    settle = f"update handraise.questions set {values} where {workspace} and id = {ID} and status = 'pending'"  # noqa: S608 -- literals of ours
    close = f"delete from handraise.inbox using q where {workspace} and question_id = {ID}"  # noqa: S608 -- the same
    settle += " and (expires_at is null or expires_at > now()) returning id"
    return (
        f"with q as ({question} on conflict do nothing), i as ({inbox}) {event}",
        f"with q as ({settle}), i as ({close}) {_insert('events', answered, 'from q')}",
    )


async def _row(connection: Any, table: str, question_id: str) -> dict[str, str]:
    """The newest row of a question in a table, as literals by the names of their columns; without what is generated."""
    key = "id" if table == "questions" else "question_id"
    generated = ("transaction", "number")
    order = "" if table != "events" else "order by number desc"
    found = await connection.fetchrow(
        f"select * from handraise.{table} where {key} = $1 {order} limit 1",  # noqa: S608 -- a table of ours
        question_id,
    )
    literals = {}
    for name, value in found.items():
        if value is None or name in generated:
            continue
        literals[name] = (
            ID if value == question_id else _moment(value) if isinstance(value, datetime) else _literal(value)
        )
    return literals


def _moment(value: datetime) -> str:
    """An instant of a question just asked: when it was asked, or when it expires."""
    return f"now() + interval '{EXPIRES_IN}'" if value > datetime.now(UTC) else "now()"


def _insert(table: str, row: dict[str, str], source: str = "") -> str:
    return (
        f"insert into handraise.{table} ({', '.join(row)}) select {', '.join(row.values())} {source}".strip()
    )


def _for_pgbench(sent: Sent) -> str:
    """A statement for one question, with literals in place of the values that asyncpg sends."""

    def literal(number: re.Match[str]) -> str:
        place = int(number[1]) - 1
        text = ID if place in sent.named else _literal(sent.values[place])
        return f"array[{text}]" if sent.batched[place] else text

    return " ".join(re.sub(r"\$(\d+)", literal, sent.sql).split())


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    # A colon before a letter or a digit is a variable to pgbench, also inside a text.
    quoted = str(value).replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a")
    return f"e'{quoted}'"


def batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in parts of this size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


new_key = uuid7_ids()


async def ask(desk: Desk, key: str | None = None) -> str:
    """Ask what every benchmark asks; its id."""
    return (await desk.post(**QUESTION, expires_in=EXPIRES_IN, key=key or new_key())).id
