"""Filling a database with rows, faster than by asking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from benchmarks.bare import SETTINGS, Sent, batches
from handraise.desks import uuid7_ids
from support.database import fetch_value

_AT_ONCE = 10_000
SEEDS, _TIMES = 10_000, 25

_TABLES = """
select
    format('%s', c.oid::regclass) as name,
    max(a.attname) filter (where a.attname in ('id', 'question_id')) as key,
    bool_or(a.attname = 'key') as has_key,
    string_agg(quote_ident(a.attname), ', ') filter (where a.attname not in ('id', 'question_id', 'key') and (not a.atthasdef or c.relname = 'questions')
        and a.attidentity = '' and a.attgenerated = '') as others
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname in ('questions', 'inbox', 'events')
group by c.oid
"""
_INDEXES = """
select format('%s', i.indexrelid::regclass) as name, pg_get_indexdef(i.indexrelid) as definition
from pg_index as i
join pg_class as c on c.oid = i.indrelid
where c.relnamespace = 'handraise'::regnamespace and c.relname in ('inbox', 'events') and not i.indisunique
"""


async def fill(address: str, ask: Sent, count: int, *, prefix: str = "") -> list[str]:
    """Add pending questions like one that the desk asked; return their ids, which may begin differently."""
    new_id = uuid7_ids()
    ids = [prefix + new_id()[len(prefix) :] for _ in range(count)]
    parts = batches(ids, _AT_ONCE)
    settings = {**SETTINGS, "synchronous_commit": "off"}

    async def work() -> None:
        connection = await asyncpg.connect(address, server_settings=settings)
        try:
            while parts:
                rows = [ask.row(each) for each in parts.pop(0)]
                await connection.fetch(ask.sql, *ask.arguments(rows))
        finally:
            await connection.close()

    await asyncio.gather(work(), work())
    return ids


async def multiply(address: str, ask: Sent, count: int, *, answer: Sent | None = None) -> list[str]:
    """Add pending or answered questions, which the database itself makes from a few, whose ids are returned.

    Every row of a question in any table is copied with another id. Columns of events and of the inbox that have a default
    get a new value.
    """
    seeds = await fill(address, ask, min(count, SEEDS), prefix="0198")
    if answer is not None:
        async with filling(address) as connection:
            await connection.fetch(answer.sql, *answer.arguments([answer.row(each) for each in seeds]))
    async with filling(address) as connection:
        tables = await connection.fetch(_TABLES)
        indexes = await connection.fetch(_INDEXES)
        for index in indexes:
            await connection.execute(f"drop index {index['name']}")
    await asyncio.gather(*(_multiply_in(address, dict(table), count - len(seeds)) for table in tables))
    async with filling(address) as connection:
        for index in indexes:
            await connection.execute(index["definition"])
    return seeds


async def _multiply_in(address: str, table: dict[str, Any], count: int) -> None:
    name, id_column, others = table["name"], table["key"], table["others"]
    async with filling(address) as connection:
        for start in range(0, count // SEEDS, _TIMES):
            times = min(_TIMES, count // SEEDS - start)
            new_id = f"'0199' || lpad((n + {start})::text, 9, '0') || substr({id_column}, 14)"
            named = {id_column: new_id}
            if table["has_key"]:
                named["key"] = f"case when key is not null then {new_id} end"
            await connection.execute(
                f"insert into {name} ({', '.join(named)}, {others}) "  # noqa: S608 -- names out of the catalogue
                f"select {', '.join(named.values())}, {others} from generate_series(1, {times}) as n, "
                f"{name} as seed where {id_column} like '0198%' order by n, {id_column}"
            )


@asynccontextmanager
async def filling(address: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection that does not wait for the disk."""
    memory = {"work_mem": "256MB", "maintenance_work_mem": "512MB", "synchronous_commit": "off"}
    connection = await asyncpg.connect(address, server_settings=memory)
    try:
        yield connection
    finally:
        await connection.close()


async def vacuum(address: str) -> None:
    """What autovacuum would have done after a while."""
    await fetch_value(address, "vacuum (analyze)")
