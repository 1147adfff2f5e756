"""Every statement runs on the shard of its workspace, and a workspace that was only looked at has no shard."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.postgres.backend import open_database
from handraise.backends.postgres.database import Run
from handraise.backends.shards import list_shards, move_workspace, placement_address
from handraise.backends.shards.shard import Shard
from handraise.backends.shards.shard_router import ShardRouter
from handraise.backends.shards.sharded_database import ShardedDatabase
from handraise.backends.sql_files import Statement, load_statements
from handraise.desk_factory import open_backend
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role

BACKEND = "handraise.backends.postgres"
WRITES = re.compile(r"\b(insert into|update|delete from|merge into|truncate|alter table)\b", re.IGNORECASE)
TEXT = re.compile(r"'[^']*'")
CALLS = re.compile(r"handraise\.(\w+)\s*\(")


async def test_a_statement_that_is_said_to_read_calls_no_function_that_writes(postgres: str) -> None:
    connection = await asyncpg.connect(postgres)
    try:
        rows = await connection.fetch(
            "select proname as name, pg_get_functiondef(oid) as text from pg_proc "
            "where pronamespace = 'handraise'::regnamespace and prokind = 'f'"
        )
    finally:
        await connection.close()
    functions = {row["name"]: row["text"] for row in rows}

    def writes(text: str, known: frozenset[str] = frozenset()) -> bool:
        called = set(CALLS.findall(text)) & functions.keys() - known
        return bool(WRITES.search(text)) or any(writes(functions[each], known | called) for each in called)

    statements = [
        statement
        for file in resources.files(BACKEND).iterdir()
        if file.name.endswith(".sql")
        for statement in load_statements(BACKEND, file.name).values()
    ]
    assert {each.name for each in statements if each.writes < writes(TEXT.sub("''", each.named))} == set()


async def test_a_workspace_without_a_home_is_read_but_never_written_on_a_shard_by_mistake(
    shards: str, workspace: str
) -> None:
    def make(number: int, address: str) -> Shard:
        return Shard(number, address, clock=None, connections=2, confined=None)

    mistaken = load_statements(BACKEND, "outbox.sql")["put_routing"]
    said_to_read = Statement(
        mistaken.name, mistaken.named, mistaken.numbered, mistaken.parameters, writes=False
    )
    values = {"workspace": workspace, "policy": "{}"}
    async with open_database(placement_address(shards), connections=2) as placements:
        router = ShardRouter(placements, make)
        try:
            database = ShardedDatabase(router)
            with pytest.raises(StoreUnavailable, match="read-only"):
                await database.fetch_in(workspace, said_to_read, **values)
            assert await router.find_shard(workspace) is None
            await database.fetch_in(workspace, mistaken, **values)
            assert await router.find_shard(workspace) is not None
        finally:
            await router.close()


async def test_what_is_read_after_a_move_comes_from_the_new_home(shards: str, workspace: str) -> None:
    """Also in a process that knows only the old one, and whose statements would write nothing there."""
    async with open_backend(shards) as ports, open_desk(shards, workspace=workspace) as desk:
        await ports.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        question = await desk.post("Ship it?", choices=["yes", "no"])
        assert not await ports.store.take_back(question.ref, by="ann", reason=None)
        placements = placement_address(shards)
        homes = [each.number for each in await list_shards(placements)]
        async with open_backend(shards) as mover:
            for to in homes:
                await move_workspace(placements, workspace, to=to)
                await mover.directory.put_person(
                    workspace, "ann", name=f"Ann {to}", email=None, role=Role.MEMBER
                )
                found = await ports.directory.find_person(workspace, "ann")
                assert found is not None
                assert found.name == f"Ann {to}"
                assert not await ports.store.take_back(question.ref, by="ann", reason=None)
        assert (await desk.answer(question.id, "yes", by="ann")).outcome is not None


async def test_what_a_shard_says_of_a_workspace_that_has_left_refuses_nothing(
    shards: str, workspace: str
) -> None:
    """Also if Python decides by it, in the middle of a transaction."""
    async with open_desk(shards, workspace=workspace) as desk, open_backend(shards) as ports:
        await ports.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        await ports.directory.put_group(workspace, "staff", ["ann"])
        file = await desk.attach(b"hello", name="x")
        await desk.post("Now?", attachments=[file])
        placements = placement_address(shards)
        for to in [each.number for each in await list_shards(placements)]:
            await move_workspace(placements, workspace, to=to)
            await desk.post(f"And at {to}?", attachments=[file])
            found: list[Sequence[str]] = []

            def check(people: Sequence[str], found: list[Sequence[str]] = found) -> None:
                found.append(people)
                if not people:
                    raise ValueError("nobody is in it")

            await ports.directory.put_group(workspace, "staff", ["ann"], check=check)
            assert found[-1] == ["ann"]


async def test_a_workspace_that_comes_back_while_it_is_read_is_read_again(
    shards: str, workspace: str
) -> None:
    find_person = load_statements(BACKEND, "directory.sql")["find_person"]
    placements = placement_address(shards)

    def make(number: int, address: str) -> Shard:
        return Shard(number, address, clock=None, connections=2, confined=None)

    async with open_backend(shards) as ports, open_database(placements, connections=2) as known:
        await ports.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        router = ShardRouter(known, make)
        try:
            home = await router.find_shard(workspace)
            assert home is not None
            other = next(each.number for each in await list_shards(placements) if each.number != home.number)
            await move_workspace(placements, workspace, to=other)
            seen: list[int] = []

            async def work(run: Run) -> int:
                rows = await run(find_person, workspace=workspace, id="ann")
                seen.append(len(rows))
                if len(seen) == 1:
                    await move_workspace(placements, workspace, to=home.number)
                return len(rows)

            assert await ShardedDatabase(router).work_in([workspace], work) == 1
            assert seen == [0, 1]
        finally:
            await router.close()
