"""Workspaces on several shards: each has one home, also while it moves and whoever dies of it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise import AlreadySettled, Approval, KeyConflict, QuestionNotFound, Timeline, open_desk
from handraise.backends.postgres import open_postgres
from handraise.backends.shards import enlist, list_shards, move_workspace, placement_address, tidy
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import open_backend
from handraise.errors import AlreadyConsumed, Stopped
from handraise.model.deliveries import Address
from handraise.model.drafting import QuestionOptions
from handraise.model.errors import NotFound, RequestConflict, StoreUnavailable, UnsafeStore
from handraise.model.events import EventKind
from handraise.model.identities import Role
from handraise.model.questions import Ref
from handraise.ports.desk import Desk
from handraise.server import ServerSettings
from handraise.server.context import open_server
from handraise.testing import ManualClock
from support.command import handraise
from tests.conftest import own_database

STEPS = (
    "intend", "expect", "purge", "leave", "copy", "page people", "page questions", "catch up", "changes", "fence",
    "last changes", "go", "open", "flip", "tidy", "done",
)  # fmt: skip
MOVER = Path(__file__).parent / "shard_mover.py"
YES: QuestionOptions = {"choices": ["yes", "no"]}


@pytest.fixture
def one() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest.fixture
def two() -> Iterator[str]:
    with own_database() as address:
        yield address


@pytest.fixture
def empty() -> Iterator[tuple[str, str]]:
    """Two databases in which somebody has yet to make the tables."""
    with own_database(empty=True) as one, own_database(empty=True) as two:
        yield one, two


@pytest.mark.slow("makes two databases; the shards that other tests share do the same in the gate")
async def test_ten_lines_are_enough(one: str, two: str) -> None:
    for each in (one, two):
        await enlist(one, each)
    async with open_desk(one.replace("postgresql", "postgresql+shards", 1)) as desk:
        questions = [await desk.scoped(f"team-{n}").post("Ship it?", **YES) for n in range(8)]
        for question in questions:
            await desk.scoped(question.workspace).answer(question.id, "yes", by="ann")
    shards = await list_shards(one)
    assert [each.number for each in shards] == [1, 2]
    assert sum(each.workspaces for each in shards) == 8
    assert all(each.workspaces for each in shards)


@pytest.mark.only_proof_of("that a workspace is on one shard; it makes the three databases of this file")
async def test_a_workspace_is_on_one_shard_and_nowhere_else(shards: str, workspace: str) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        await desk.post("Ship it?", **YES)
    assert sorted(await rows_by_shard(shards, workspace)) == [0, 0, 3]


async def test_looking_at_a_workspace_gives_it_no_home(shards: str, workspace: str) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        with pytest.raises(QuestionNotFound):
            await desk.get("nothing")
        assert not (await desk.list_pending()).items
        assert not await desk.run_due()
    assert await shard_of(shards, workspace) is None


@pytest.mark.slow("makes two databases; the shards that tests share are enlisted in the gate")
async def test_a_database_in_use_becomes_a_shard_with_what_it_has(one: str, two: str, workspace: str) -> None:
    async with open_desk(one, workspace=workspace) as desk:
        question = await desk.post("Ship it?", **YES)
    assert await enlist(one, one) == 1
    assert await enlist(one, two) == 2
    assert await enlist(one, one) == 1
    async with open_desk(one.replace("postgresql", "postgresql+shards", 1), workspace=workspace) as desk:
        assert (await desk.get(question.id)).prompt == "Ship it?"


@pytest.mark.slow("migrates two databases; tests/backends/test_postgres_row_security.py has such an owner")
async def test_an_owner_who_is_no_superuser_adds_and_moves(empty: tuple[str, str], workspace: str) -> None:
    one, two = empty
    owner = f"handraise_test_owner_{workspace[-8:]}"
    async with connected(one) as plain:
        await plain.execute(f"create role {owner} login; grant handraise_app to {owner}")
    try:
        mine = []
        for address in (one, two):
            async with connected(address) as plain:
                name = urlsplit(address).path[1:]
                await plain.execute(f'alter database "{name}" owner to {owner}')
            parts = urlsplit(address)
            mine.append(urlunsplit(parts._replace(netloc=f"{owner}@{parts.netloc.rpartition('@')[2]}")))
        async with open_backend(mine[0]) as ports:
            await ports.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        for address in mine:
            await enlist(mine[0], address)
        assert [each.workspaces for each in await list_shards(mine[0])] == [1, 0]
        shards = mine[0].replace("postgresql", "postgresql+shards", 1)
        async with (
            open_desk(shards, workspace=workspace) as desk,
            open_backend(shards, confined=True) as ports,
        ):
            question = await desk.post("Ship it?", **YES)
            moved = await move_workspace(mine[0], workspace, to=2)
            assert moved.rows
            assert await ports.directory.find_person(workspace, "ann")
            await desk.answer(question.id, "yes", by="ann")
    finally:
        for address in (one, two):
            async with connected(address) as plain:
                await plain.execute(f"reassign owned by {owner} to current_user; drop owned by {owner}")
        async with connected(one) as plain:
            await plain.execute(f"drop role {owner}")


@pytest.mark.slow("makes two databases for a mistake that an operator makes once")
async def test_a_shard_whose_address_leads_elsewhere_is_refused(one: str, two: str, workspace: str) -> None:
    await enlist(one, one)
    async with connected(one) as database:
        await database.execute("update handraise.shards set address = $1", two)
    async with open_desk(one.replace("postgresql", "postgresql+shards", 1), workspace=workspace) as desk:
        with pytest.raises(UnsafeStore, match="not it"):
            await desk.post("Ship it?", **YES)


@pytest.mark.only_proof_of("that everything of a workspace moves")
async def test_everything_of_a_workspace_moves_and_the_old_rows_go(shards: str, workspace: str) -> None:
    async with (
        open_backend(shards) as ports,
        open_desk(shards, workspace=workspace) as desk,
        open_desk(shards, workspace=workspace) as stale,
    ):
        await ports.directory.put_person(
            workspace, "ann", name="Ann", email="ann@example.org", role=Role.ADMIN
        )
        await ports.directory.put_group(workspace, "ops", ["ann"])
        await ports.directory.open_session(
            workspace, "s-1", digest="d" * 64, person="ann", how="link", lasts=timedelta(hours=1)
        )
        await ports.directory.add_key(workspace, "k-1", digest="e" * 64, agent="bot", created_by="ann")
        await ports.outbox.put_address(
            Address(workspace=workspace, recipient="ann", channel="webhook", id="1", to={"url": "x"})
        )
        await ports.outbox.put_routing(workspace, {"a": 1})
        stop = await ports.policies.stop(workspace, tool="pay", why="wrong account", by="ann")
        asked = [await desk.post(f"Question {n}?", key=f"key-{n}", choices=["yes", "no"]) for n in range(6)]
        for question in asked[:3]:
            await desk.answer(question.id, "yes", by="ann")
        before = [(await desk.get(each.id), await desk.history(each.id)) for each in asked]
        async with asyncio.timeout(30):
            while (
                len(feed := await desk.feed()) < 9
            ):  # it waits for whatever transaction runs on the whole server
                await asyncio.sleep(0.05)
        entries = await ports.outbox.entries(workspace, limit=100)
        assert (await stale.get(asked[5].id)).outcome is None
        source = await shard_of(shards, workspace)
        target = await another(shards, workspace)

        moved = await move_workspace(placement_address(shards), workspace, to=target)

        assert (moved.source, moved.target) == (source, target)
        assert await shard_of(shards, workspace) == target
        for each in (desk, stale):
            assert [(await each.get(one.id), await each.history(one.id)) for one in asked] == before
            assert await each.feed() == feed
        after = await ports.outbox.entries(workspace, limit=100)
        assert [(each.number, each.question_id, each.kind, each.at) for each in after] == [
            (each.number, each.question_id, each.kind, each.at) for each in entries
        ]
        assert len(entries) == 9
        assert await ports.outbox.routing(workspace) == {"a": 1}
        assert await ports.policies.stops(workspace) == [stop]
        with pytest.raises(Stopped):
            await stale.post("Pay?", form=Approval.of("pay", {}))
        found = await ports.directory.find_session(workspace, "d" * 64)
        assert found is not None and found[1].groups == {"ops"}  # noqa: PT018 -- one thing
        assert await ports.directory.find_key(workspace, "e" * 64)
        assert await stale.find_by_key("key-4") == before[4][0]
        again = await stale.post("Question 4?", key="key-4", choices=["yes", "no"])
        assert again.id == asked[4].id
        await stale.answer(asked[4].id, "no", by="bob")
        with pytest.raises(AlreadySettled):
            await desk.answer(asked[4].id, "yes", by="cleo")
        kinds = [event.kind for event in await desk.history(asked[4].id)]
        assert kinds == [EventKind.ASKED, EventKind.ANSWERED]
        async with asyncio.timeout(30):
            while not (rest := await desk.feed(after=feed.next)):
                await asyncio.sleep(0.05)
        assert [event.question_id for event in rest] == [asked[4].id]
        assert (await rows_by_shard(shards, workspace))[source - 1] == 0


@pytest.mark.slow("a lost hint and a move at once; the poll of every wait would find it a minute later")
async def test_a_mark_finds_what_was_settled_after_it_before_and_after_a_move(
    shards: str, workspace: str
) -> None:
    async with open_desk(shards, workspace=workspace) as desk, open_backend(shards) as ports:
        questions = [await desk.post(f"Question {n}?", **YES) for n in range(3)]
        _, mark = await ports.store.settled_since(workspace, None, limit=10)
        await desk.answer(questions[0].id, "yes", by="ann")
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        await desk.answer(questions[1].id, "yes", by="ann")
        ids, mark = await ports.store.settled_since(workspace, mark, limit=10)
        assert set(ids) == {questions[0].id, questions[1].id}
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        await desk.answer(questions[2].id, "yes", by="ann")
        ids, _ = await ports.store.settled_since(workspace, mark, limit=10)
        assert questions[2].id in ids


@pytest.mark.slow("the gate moves a workspace with everything but an archive")
async def test_what_is_archived_moves_along_and_is_found_as_before(shards: str, workspace: str) -> None:
    form = Approval.of("send_refund", {"order": "A-17"})
    async with open_desk(shards, workspace=workspace) as desk, open_backend(shards) as ports:
        asked = [await desk.post(f"Question {n}?", key=f"key-{n}", form=form) for n in range(4)]
        for question in asked[:3]:
            await desk.answer(question.id, "approve", by="ann")
        await ports.store.tidy(rest=timedelta(0), keep=None, limit=1_000_000)
        before = [(await desk.get(each.id), await desk.history(each.id)) for each in asked]
        settled = (await desk.list_settled()).items
        source, target = await shard_of(shards, workspace), await another(shards, workspace)
        assert await archived(shards, workspace, source) == 3

        await move_workspace(placement_address(shards), workspace, to=target)

        assert await archived(shards, workspace, source) == 0
        assert await archived(shards, workspace, target) == 3
        assert [(await desk.get(each.id), await desk.history(each.id)) for each in asked] == before
        assert (await desk.list_settled()).items == settled
        assert (await desk.post("Question 1?", key="key-1", form=form)).id == asked[1].id
        async with open_desk(shards, workspace=workspace, new_id=lambda: asked[2].id) as same_id:
            with pytest.raises(KeyConflict):
                await same_id.post("Another?", **YES)
        assert (await desk.consume_approval(asked[0].id)).tool == "send_refund"
        with pytest.raises(AlreadyConsumed):
            await desk.consume_approval(asked[0].id)
        await desk.answer(asked[3].id, "approve", by="ann")
        await ports.store.tidy(rest=timedelta(0), keep=None, limit=1_000_000)
        assert await archived(shards, workspace, target) == 4


@pytest.mark.slow("kills a mover in a process of its own; the gate does that once")
async def test_a_workspace_on_its_way_is_neither_archived_nor_removed(shards: str, workspace: str) -> None:
    async with open_desk(shards, workspace=workspace) as desk, open_backend(shards) as ports:
        questions = [await desk.post(f"Question {n}?", **YES) for n in range(2)]
        await desk.answer(questions[0].id, "yes", by="ann")
        await ports.store.tidy(rest=timedelta(0), keep=None, limit=1_000_000)
        await desk.answer(questions[1].id, "yes", by="ann")
        source, target = await shard_of(shards, workspace), await another(shards, workspace)
        assert await killed_mover(shards, workspace, target, "catch up")
        await ports.store.tidy(rest=timedelta(0), keep=timedelta(0), limit=1_000_000)
        assert await archived(shards, workspace, source) == 1
        await move_workspace(placement_address(shards), workspace, to=target)
        for question in questions:
            assert (await desk.get(question.id)).outcome is not None
        await ports.store.tidy(rest=timedelta(0), keep=timedelta(0), limit=1_000_000)
        for question in questions:
            with pytest.raises(QuestionNotFound):
                await desk.get(question.id)


@pytest.mark.only_proof_of("that nothing is written where a workspace has left")
async def test_a_process_that_knows_only_the_old_home_writes_nothing_there(
    shards: str, workspace: str
) -> None:
    """Not even one that was opened at the shard itself, and knows of no placement at all."""
    async with open_desk(shards, workspace=workspace) as desk:
        question = await desk.post("Ship it?", **YES)
    old = await address_of(shards, await shard_of(shards, workspace))
    async with open_desk(old, workspace=workspace) as direct, open_postgres(old) as ports:
        assert (await direct.get(question.id)).outcome is None
        await ports.directory.put_person(workspace, "ann", name="Ann", email=None, role=Role.MEMBER)
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        with pytest.raises(StoreUnavailable, match="another shard"):
            await direct.post("Once more?", **YES)
        with pytest.raises(StoreUnavailable, match="another shard"):
            await ports.directory.put_person(workspace, "bob", name="Bob", email=None, role=Role.MEMBER)
        with pytest.raises(StoreUnavailable, match="another shard"):
            await ports.outbox.put_routing(workspace, {})
    assert (await rows_by_shard(shards, workspace)).count(0) == 2


@pytest.mark.slow("moves under a long transaction; the gate moves under load once")
async def test_a_transaction_from_before_the_move_is_waited_for_and_comes_along(
    shards: str, workspace: str
) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        await desk.post("Ship it?", **YES)
        placements, target = placement_address(shards), await another(shards, workspace)
        async with connected(await address_of(shards, await shard_of(shards, workspace))) as old:
            transaction = old.transaction()
            await transaction.start()
            # It writes before the fence is there to be seen, and commits long after.
            await old.execute(
                "insert into handraise.routing (workspace, policy) values ($1, '{\"late\": 1}')", workspace
            )
            steps: list[str] = []
            moving = asyncio.create_task(
                move_workspace(placements, workspace, to=target, reached=steps.append)
            )
            while "leave" not in steps:
                await asyncio.sleep(0.01)
            done, _ = await asyncio.wait([moving], timeout=0.3)
            assert not done
            assert "copy" not in steps
            await transaction.commit()
        await asyncio.wait_for(moving, 20)
    async with open_backend(shards) as ports:
        assert await ports.outbox.routing(workspace) == {"late": 1}


@pytest.mark.slow("the gate moves a workspace under load, with waits, once")
async def test_waits_and_followers_of_other_processes_follow(shards: str, workspace: str) -> None:
    async with (
        open_desk(shards, workspace=workspace, poll_interval=0.2) as asking,
        open_desk(shards, workspace=workspace) as answering,
    ):
        question = await asking.post("Ship it?", **YES)
        seen: list[str] = []

        async def follow() -> None:
            async for event in asking.follow(after=""):
                seen.append(event.kind)
                if event.kind is EventKind.ANSWERED:
                    return

        following = asyncio.create_task(follow())
        waiting = asyncio.create_task(asking.wait(question.id, timeout=20))
        await asyncio.sleep(0.3)
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        await answering.answer(question.id, "yes", by="ann")
        assert getattr(await waiting, "value", None) == "yes"
        await asyncio.wait_for(following, 20)
        assert seen == ["asked", "answered"]


@pytest.mark.slow("waits for a fence to end; the gate kills a mover at the same step")
async def test_a_fence_ends_by_itself_and_what_is_written_then_comes_along(
    shards: str, workspace: str
) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        await desk.post("Ship it?", **YES)
        target = await another(shards, workspace)
        assert await killed_mover(shards, workspace, target, "go")
        question = await asyncio.wait_for(desk.post("While nobody moves it?", **YES), 20)
        await move_workspace(placement_address(shards), workspace, to=target)
        assert await shard_of(shards, workspace) == target
        assert (await desk.get(question.id)).prompt == "While nobody moves it?"


@pytest.mark.parametrize(
    "step",
    [
        each
        if each == "open"
        else pytest.param(
            each, marks=pytest.mark.slow("kills a mover under load; the gate does it at one step")
        )
        for each in STEPS
    ],
)
@pytest.mark.only_proof_of("that a mover which dies leaves a workspace one home")
async def test_a_mover_killed_at_any_step_leaves_one_home_and_the_next_goes_on(
    shards: str, workspace: str, step: str
) -> None:
    async with load(shards, workspace) as (desk, outcome):
        source, target = await shard_of(shards, workspace), await another(shards, workspace)
        killed = await killed_mover(shards, workspace, target, step)
        assert killed or step == "changes"  # nothing may have been noted yet
        # In use all the time, wherever it is now.
        await asyncio.wait_for(desk.post("Where am I?", key="after the kill", choices=["yes", "no"]), 20)
        if await shard_of(shards, workspace) == source:
            await move_workspace(placement_address(shards), workspace, to=target)
        await tidy(placement_address(shards))
        assert await shard_of(shards, workspace) == target
    await outcome(shards)
    rows = await rows_by_shard(shards, workspace)
    assert rows.count(0) == 2
    assert rows[target - 1]


@pytest.mark.slow("moves three times under load; the gate does it once, with a mover that is killed")
async def test_moving_to_and_fro_under_load_loses_and_doubles_nothing(shards: str, workspace: str) -> None:
    async with load(shards, workspace, callers=8) as (_, outcome):
        for _ in range(3):
            await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
    await outcome(shards)


@pytest.mark.slow("kills a mover in a process of its own; the gate does that once")
async def test_a_move_can_be_given_up(shards: str, workspace: str) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        await desk.post("Ship it?", **YES)
        source, target = await shard_of(shards, workspace), await another(shards, workspace)
        assert source is not None
        assert await killed_mover(shards, workspace, target, "fence")
        placements = placement_address(shards)
        third = ({1, 2, 3} - {source, target}).pop()
        with pytest.raises(RequestConflict, match=f"on its way to shard {target}"):
            await move_workspace(placements, workspace, to=third)
        await move_workspace(placements, workspace, to=source)
        assert await shard_of(shards, workspace) == source
        await desk.post("Still here?", **YES)
        await tidy(placements)
        assert (await rows_by_shard(shards, workspace)).count(0) == 2
        await move_workspace(placements, workspace, to=third)
        assert len((await desk.list_pending()).items) == 2


async def test_only_one_moves_a_workspace(shards: str, workspace: str) -> None:
    async with open_desk(shards, workspace=workspace) as desk:
        await desk.post("Ship it?", **YES)
    target, steps = await another(shards, workspace), list[str]()
    placements = placement_address(shards)
    one = asyncio.create_task(move_workspace(placements, workspace, to=target, reached=steps.append))
    while not steps:
        await asyncio.sleep(0)
    with pytest.raises(RequestConflict, match="somebody else"):
        await move_workspace(placements, workspace, to=target)
    await one
    with pytest.raises(NotFound, match="no shard 9"):
        await move_workspace(placements, workspace, to=9)
    with pytest.raises(NotFound, match="no workspace"):
        await move_workspace(placements, f"{workspace}-unknown", to=1)


@pytest.mark.slow("makes two databases and moves twice; deeds are rows that move as all do")
async def test_timelines_go_on_after_a_move_and_each_deed_is_done_once(
    one: str, two: str, workspace: str
) -> None:
    clock = ManualClock()
    for each in (one, two):
        await enlist(one, each)
    shards = one.replace("postgresql", "postgresql+shards", 1)
    async with open_desk(shards, workspace=workspace, clock=clock) as desk:
        question = await desk.post(
            "Ship it?",
            choices=["yes", "no"],
            timeline=Timeline(remind=(timedelta(minutes=1),), expire=timedelta(hours=1)),
        )
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        clock.advance(timedelta(seconds=61))
        assert isinstance(desk, LocalDesk)
        await desk.run_maintenance()
        await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        clock.advance(timedelta(hours=2))
        assert await desk.run_maintenance() == 1
        kinds = [event.kind for event in await desk.history(question.id)]
        assert kinds == [EventKind.ASKED, EventKind.REMINDED, EventKind.EXPIRED]


@pytest.mark.slow("opens a server on three shards and moves twice under load")
async def test_a_server_works_on_shards_and_goes_on_while_a_workspace_moves(
    shards: str, workspace: str
) -> None:
    """With row-level security, the watched engine, and a dispatcher for each shard."""
    settings = ServerSettings(url=shards, workspace=workspace, poll_interval=0.3)
    async with open_server(settings) as ctx, asyncio.TaskGroup() as group:
        over = asyncio.Event()
        answered: list[str] = []

        async def call() -> None:
            while not over.is_set():
                question = await ctx.desk.post("Ship it?", **YES)
                await ctx.desk.answer(question.id, "yes", by="ann")
                await ctx.directory.put_group(workspace, "ops", [])
                answered.append(question.id)

        for _ in range(4):
            group.create_task(call())
        while len(answered) < 4:
            await asyncio.sleep(0.01)
        for _ in range(2):
            await move_workspace(placement_address(shards), workspace, to=await another(shards, workspace))
        over.set()
        found = await ctx.store.read([Ref(workspace, each) for each in answered])
        assert all(each is not None and each.outcome is not None for each in found)
        assert len(ctx.outbox.by_shard) == 3  # type: ignore[attr-defined]  # only shards have it


@pytest.mark.slow("makes two databases; the gate calls what the command calls")
def test_the_command_adds_lists_moves_and_tidies(one: str, two: str) -> None:
    url = one.replace("postgresql", "postgresql+shards", 1)
    assert "no shards yet" in handraise("shards", "list", url=url).stdout
    for number, address in enumerate((one, two), 1):
        assert f"is shard {number}" in handraise("shards", "add", address, url=url).stdout
    handraise("keys", "create", "bot", "-w", "acme", url=url)
    home = asyncio.run(shard_of(one, "acme"))
    said = handraise("shards", "move", "acme", "--to", str(3 - home), url=url).stdout
    assert f"acme is on shard {3 - home} now" in said
    assert "bot" in handraise("keys", "list", "-w", "acme", url=url).stdout
    assert "0 workspaces" in handraise("shards", "tidy", url=url).stdout
    refused = handraise("shards", "move", "nobody", "--to", "1", url=url)
    assert refused.returncode
    assert "no workspace 'nobody'" in refused.stderr
    elsewhere = handraise("shards", "list", url=one)
    assert "postgresql+shards://" in elsewhere.stderr


@asynccontextmanager
async def load(
    shards: str, workspace: str, *, callers: int = 4
) -> AsyncIterator[tuple[Desk, Callable[[str], Any]]]:
    """A workspace in use by two processes' worth of desks; afterwards, that nothing was lost or doubled."""
    answered: dict[str, str] = {}
    posted: set[str] = set()
    over = asyncio.Event()

    async def call(desk: Desk, other: Desk, name: int) -> None:
        turn = 0
        while not over.is_set():
            question = await desk.post(
                f"Question {name}.{turn}?", key=f"{name}.{turn}", choices=["yes", "no"]
            )
            posted.add(question.id)
            value = random.choice(["yes", "no"])
            settled = await other.answer(question.id, value, by="ann")
            assert settled.outcome is not None
            answered[question.id] = value
            assert getattr(await desk.wait(question.id, timeout=20), "value", None) == value
            if turn % 5 == 0:
                assert (
                    await desk.post(f"Question {name}.{turn}?", key=f"{name}.{turn}", choices=["yes", "no"])
                ).id == question.id
            turn += 1

    async def outcome(shards: str) -> None:
        async with open_desk(shards, workspace=workspace) as desk:
            counted: Counter[tuple[str, str]] = Counter()
            cursor: str | None = None
            places = []
            async with asyncio.timeout(30):  # a feed waits for whatever transaction runs on the whole server
                while not {(each, "answered") for each in answered} <= set(counted):
                    await asyncio.sleep(0.05)
                    while page := await desk.feed(after=cursor):
                        counted.update((event.question_id, str(event.kind)) for event in page)
                        places += [tuple(map(int, event.cursor.split("."))) for event in page]
                        cursor = page.next
            assert places == sorted(set(places))
            assert set(counted.values()) == {1}
            assert {each for each, kind in counted if kind == "asked"} >= posted
            for question_id, value in answered.items():
                assert (question_id, "answered") in counted
                found = (await desk.get(question_id)).outcome
                assert found is not None
                assert getattr(found, "value", None) == value
            assert answered

    async with (
        open_desk(shards, workspace=workspace, poll_interval=0.3) as one,
        open_desk(shards, workspace=workspace, poll_interval=0.3) as two,
    ):
        await one.post("First?", **YES)
        async with asyncio.TaskGroup() as group:
            for name in range(callers):
                desk, other = (one, two) if name % 2 else (two, one)
                group.create_task(call(desk, other, name))
            try:
                while len(answered) < callers:
                    await asyncio.sleep(0.02)
                yield one, outcome
            finally:
                over.set()


async def killed_mover(shards: str, workspace: str, target: int, step: str) -> bool:
    """Whether a mover in a process of its own was killed at a step, which it may never have come to."""
    moving = await asyncio.create_subprocess_exec(
        sys.executable, MOVER, placement_address(shards), workspace, str(target), step,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, said = await asyncio.wait_for(moving.communicate(), 60)
    assert moving.returncode in (-9, 0), said.decode()
    return moving.returncode == -9


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(placement_address(address))
    try:
        yield opened
    finally:
        await opened.close()


async def shard_of(shards: str, workspace: str) -> int:
    async with connected(shards) as database:
        found: int = await database.fetchval(
            "select shard from handraise.placements where workspace = $1", workspace
        )
        return found


async def another(shards: str, workspace: str) -> int:
    """A shard that a workspace does not live on."""
    home = await shard_of(shards, workspace)
    async with connected(shards) as database:
        found: int = await database.fetchval(
            "select number from handraise.shards where number <> $1 order by random() limit 1", home
        )
        return found


async def address_of(shards: str, number: int) -> str:
    async with connected(shards) as database:
        found: str = await database.fetchval("select address from handraise.shards where number = $1", number)
        return found


async def archived(shards: str, workspace: str, number: int) -> int:
    """How many questions of a workspace a shard has in its archive and nowhere else."""
    async with connected(await address_of(shards, number)) as shard:
        found: int = await shard.fetchval(
            "select count(*) from handraise.archive as a join handraise.archive_index using (workspace, id)"
            " where a.workspace = $1 and not exists (select from handraise.questions as q"
            " where q.workspace = a.workspace and q.id = a.id)",
            workspace,
        )
        return found


async def rows_by_shard(shards: str, workspace: str) -> list[int]:
    """How many questions and events of a workspace each shard has."""
    rows = []
    async with connected(shards) as database:
        addresses = [
            row[0] for row in await database.fetch("select address from handraise.shards order by number")
        ]
    for address in addresses:
        async with connected(address) as shard:
            rows.append(
                await shard.fetchval(
                    "select (select count(*) from handraise.questions where workspace = $1)"
                    " + (select count(*) from handraise.inbox where workspace = $1)"
                    " + (select count(*) from handraise.events where workspace = $1)",
                    workspace,
                )
            )
    return rows
