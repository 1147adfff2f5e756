"""Telling the placement database which databases are shards."""

from __future__ import annotations

from dataclasses import dataclass

from handraise.backends.postgres.backend import open_database
from handraise.backends.postgres.connections import Connection, alone, driver_errors_translated
from handraise.backends.sql_files import load_statements
from handraise.model.errors import UnsafeStore

STATEMENTS = load_statements("handraise.backends.shards", "enlisting.sql")


@dataclass(frozen=True, slots=True)
class ShardSummary:
    """A shard, as the placement database knows it."""

    number: int
    address: str
    open: bool
    workspaces: int


async def enlist(placements: str, address: str) -> int:
    """Make a database a shard, with the workspaces that it has, and return its number.

    If it is a shard already, its address is updated, new tables get a fence, and new workspaces are added. Run this as
    the role that owns the tables in both databases.
    """
    for each in dict.fromkeys((placements, address)):
        async with open_database(each, connections=2):
            pass
    with driver_errors_translated():
        async with (
            alone(placements, "shards") as known,
            alone(address, "shards") as shard,
            known.transaction(),
        ):
            await known.execute("lock table handraise.shards in share row exclusive mode")
            number: int = await shard.fetchval(
                STATEMENTS["identify"].numbered,
                await known.fetchval(STATEMENTS["next_number"].numbered),
            )
            await _raise_fences(shard)
            await known.execute(STATEMENTS["enlist"].numbered, number, address)
            found = [row["workspace"] for row in await shard.fetch(STATEMENTS["workspaces"].numbered)]
            elsewhere = [each for each in found if await _adopt(known, each, number) != number]
            if elsewhere:
                names = ", ".join(map(repr, elsewhere[:5]))
                raise UnsafeStore(
                    f"Both this database and another shard have rows of {names}. Nothing was changed."
                )
    return number


async def list_shards(placements: str) -> list[ShardSummary]:
    """Every shard, in order."""
    async with open_database(placements, connections=2):
        pass
    with driver_errors_translated():
        async with alone(placements, "shards") as known:
            rows = await known.fetch(STATEMENTS["list"].numbered)
    return [ShardSummary(row["number"], row["address"], row["open"], row["workspaces"]) for row in rows]


async def _raise_fences(shard: Connection) -> None:
    async with shard.transaction():
        await shard.execute("set local lock_timeout = '5s'")
        await shard.execute("select handraise.raise_fences()")


async def _adopt(known: Connection, workspace: str, number: int) -> int:
    """Record that a workspace lives on a shard, unless it has one; return the shard it lives on."""
    await known.execute("select handraise.set_workspace($1)", workspace)
    statement = STATEMENTS["adopt"]
    shard: int = await known.fetchval(
        statement.numbered, *statement.arguments(workspace=workspace, number=number)
    )
    return shard
