"""The waker: nothing is lost by a crash, and one that cannot be woken holds up no other."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handraise import Desk, Question, Responder, open_desk
from handraise.errors import DeskClosed
from handraise.integrations.state_store import write_whole
from handraise.integrations.waker import NobodyWaits, keep_waking
from support.issuer import issuer_at
from support.server_process import free_clock, server_process
from tests.integrations.cells import more_processes
from tests.integrations.processes import SOON, until


class RecordingEngine:
    """An engine of the test's own: it remembers whom it woke, and fails where it is told to."""

    name = "engine"

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.tried: list[str] = []
        self.fails: dict[str, Exception] = {}

    async def wake(self, question_id: str, to: Mapping[str, Any]) -> None:
        assert question_id
        self.tried.append(to["name"])
        if error := self.fails.get(to["name"]):
            raise error
        self.woken.append(to["name"])

    async def has_woken(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.woken))


@asynccontextmanager
async def waking(
    desk: Desk, engine: RecordingEngine, cursor: Path, **options: Any
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(keep_waking(desk, engine, cursor=cursor, poll=0.02, **options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def posted(desk: Desk, name: str, **options: Any) -> Question:
    return await desk.post("Well?", state={"wake": {"engine": "engine", "name": name}}, **options)


async def answered(desk: Desk, name: str) -> Question:
    return await desk.answer((await posted(desk, name)).id, "yes", by="ana")


def place(cursor: Path) -> str | None:
    return str(json.loads(cursor.read_text())["place"]) if cursor.exists() else None


async def end_of(desk: Desk) -> str:
    return (await desk.feed()).items[-1].cursor


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}", poll_interval=0.05) as desk:
        yield desk


async def test_every_ending_wakes_and_nothing_else_does(desk: Desk, tmp_path: Path) -> None:
    engine = RecordingEngine()
    async with waking(desk, engine, tmp_path / "cursor"):
        await posted(desk, "pending")
        await desk.post("Well?", state={"wake": "not an address"})
        await answered(desk, "answered")
        await desk.decline((await posted(desk, "declined")).id, by="ana")
        await desk.withdraw((await posted(desk, "withdrawn")).id)
        await posted(desk, "expired", expires_in=0.01)
        await engine.has_woken("answered", "declined", "withdrawn", "expired")
    assert sorted(engine.woken) == ["answered", "declined", "expired", "withdrawn"]


async def test_what_was_settled_before_the_first_start_is_delivered(desk: Desk, tmp_path: Path) -> None:
    await answered(desk, "early")
    engine = RecordingEngine()
    async with waking(desk, engine, tmp_path / "cursor"):
        await engine.has_woken("early")


async def test_one_that_cannot_be_woken_holds_up_no_other_and_is_tried_again_after_a_crash(
    desk: Desk, tmp_path: Path
) -> None:
    engine, cursor = RecordingEngine(), tmp_path / "cursor"
    await answered(desk, "before")
    async with waking(desk, engine, cursor):
        end = await end_of(desk)
        await until(lambda: place(cursor) == end)
        engine.fails["stuck"] = ConnectionError("the engine is away")
        await answered(desk, "stuck")
        await answered(desk, "behind")
        await engine.has_woken("behind")
        asked = (await desk.feed(after=end)).items[0]
        await until(lambda: place(cursor) == asked.cursor)
    assert "stuck" in engine.tried
    again = RecordingEngine()
    async with waking(desk, again, cursor):
        await again.has_woken("stuck", "behind")
        end = await end_of(desk)
        await until(lambda: place(cursor) == end)
    assert sorted(again.woken) == ["behind", "stuck"]


async def test_an_engine_that_comes_back_is_told(desk: Desk, tmp_path: Path) -> None:
    engine = RecordingEngine()
    engine.fails["late"] = ConnectionError("the engine is away")
    async with waking(desk, engine, tmp_path / "cursor"):
        await answered(desk, "late")
        await until(lambda: len(engine.tried) > 1)
        engine.fails.clear()
        await engine.has_woken("late")


async def test_no_more_than_so_many_are_tried_at_once(desk: Desk, tmp_path: Path) -> None:
    engine = RecordingEngine()
    engine.fails = {name: ConnectionError("away") for name in "ab"}
    async with waking(desk, engine, tmp_path / "cursor", at_once=2):
        for name in "abc":
            await answered(desk, name)
        await until(lambda: engine.tried.count("a") > 2 and engine.tried.count("b") > 2)
        assert "c" not in engine.tried
        engine.fails.clear()
        await engine.has_woken("a", "b", "c")


async def test_a_workflow_that_is_gone_is_passed_over(desk: Desk, tmp_path: Path) -> None:
    engine, cursor = RecordingEngine(), tmp_path / "cursor"
    engine.fails["gone"] = NobodyWaits("gone")
    async with waking(desk, engine, cursor):
        await answered(desk, "gone")
        await answered(desk, "here")
        await engine.has_woken("here")
        end = await end_of(desk)
        await until(lambda: place(cursor) == end)
    assert engine.tried == ["gone", "here"]


async def test_only_the_questions_of_its_own_asker_are_woken(desk: Desk, tmp_path: Path) -> None:
    engine = RecordingEngine()
    async with waking(desk, engine, tmp_path / "cursor"):
        await answered(desk.scoped(asker="mallory"), "theirs")
        await answered(desk, "ours")
        await engine.has_woken("ours")
    assert engine.tried == ["ours"]


@pytest.mark.parametrize("change", [{"engine": "another"}, {"workspace": "another"}])
async def test_the_cursor_of_another_waker_is_refused(
    desk: Desk, tmp_path: Path, change: dict[str, str]
) -> None:
    cursor = tmp_path / "cursor"
    cursor.write_text(json.dumps({"engine": "engine", "workspace": "default", "place": "9", **change}))
    with pytest.raises(ValueError, match="another waker"):
        await keep_waking(desk, RecordingEngine(), cursor=cursor)


async def test_it_ends_with_its_desk(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'questions.db'}") as desk:
        task = asyncio.create_task(keep_waking(desk, RecordingEngine(), cursor=tmp_path / "cursor"))
        await answered(desk, "one")
        await until((tmp_path / "cursor").exists)
    async with asyncio.timeout(SOON):
        with pytest.raises(DeskClosed):
            await task


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [("dbos", "dbos", "dbos"), ("temporal", "temporalio", "temporal"), ("restate", "restate", "restate")],
)
def test_a_missing_framework_is_named_with_its_extra(module: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import handraise.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f'pip install "handraise[{extra}]"' in done.stderr


@more_processes
async def test_at_a_server_a_waker_follows_with_its_key_and_wakes(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "clock"
    free_clock(clock)
    with issuer_at(url) as issuer, server_process(url, clock) as address:
        key = await issuer.agent("default", "deployer")
        other = await issuer.agent("default", "another")
        session = await issuer.person("default", Responder("ana"))
        async with (
            open_desk(address, credentials=key) as desk,
            open_desk(address, credentials=other) as elsewhere,
            open_desk(address, credentials=session) as hers,
        ):
            engine = RecordingEngine()
            mine, theirs = await posted(desk, "mine"), await posted(elsewhere, "theirs")
            async with waking(desk, engine, tmp_path / "cursor"):
                await hers.answer(theirs.id, "yes", by="ana")
                await hers.answer(mine.id, "yes", by="ana")
                await engine.has_woken("mine")
            assert engine.tried == ["mine"]


def test_what_is_kept_is_on_the_disk_under_its_name_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append((stat.S_ISDIR(os.fstat(fd).st_mode), (tmp_path / "n").exists()))
    )
    write_whole(tmp_path / "n", "text")
    assert synced == [(False, False), (True, True)]
    assert [each.name for each in tmp_path.iterdir()] == ["n"]
