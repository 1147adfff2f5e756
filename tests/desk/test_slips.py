"""Slips that no other test noticed when `python -m chaos planted` made them."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from handraise import Answered, Expired, Question, Responder, StillPending, StoreUnavailable, open_desk
from handraise.backends.sqlite import bus as sqlite_bus
from handraise.backends.sqlite.store import SqliteStore
from handraise.desk_factory import open_backend
from handraise.desks import LocalDesk
from handraise.model.drafting import Limits, compose
from handraise.model.lifecycle import Move, answer_move, decline_move
from handraise.model.move_decisions import Refused
from handraise.model.outcomes import Status
from handraise.model.validation import check_answer
from handraise.testing import SilentBus, promise

SOON = 10.0
NEVER = 1_000.0


@promise("P3")
@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
async def test_every_connection_of_ours_waits_for_the_disk(address: str) -> None:
    async with open_desk(address) as desk:
        settings = (await desk.durability()).settings
    assert {settings.get("synchronous", "full"), settings.get("synchronous_commit", "on")} == {"full", "on"}


@promise("P5")
async def test_nobody_is_told_what_the_store_did_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: SqliteStore, moves: Sequence[Move]) -> Sequence[Question | None]:
        raise StoreUnavailable(f"{len(moves)} moves of {self} are lost")

    monkeypatch.setattr(SqliteStore, "settle", lost)
    async with open_desk("memory:", poll_interval=NEVER) as desk:
        question = await desk.post("Which?")
        waiting = asyncio.create_task(desk.wait(question.id, timeout=0.2))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable):
            await desk.answer(question.id, "a", by="ana")
        with pytest.raises(StillPending):
            await waiting


@promise("P4")
async def test_a_wait_looks_before_it_sleeps(address: str, workspace: str) -> None:
    """The poll comes after the test has given up, and so does the last look of a wait whose time is over."""
    async with open_desk(address, workspace=workspace, poll_interval=NEVER) as desk:
        question = await desk.post("Which?")
        await desk.answer(question.id, "a", by="ana")
        async with asyncio.timeout(SOON):
            assert isinstance(await desk.wait(question.id), Answered)


@promise("P4", "P10")
async def test_the_poll_wakes_a_wait_that_no_hint_reaches(tmp_path: Path) -> None:
    """Without a timeout: what ends a wait in time is the poll, not its last look when its time is over."""
    address = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_desk(address, bus=SilentBus(), poll_interval=0.05) as asker, open_desk(address) as person:
        question = await asker.post("Which?")
        waiting = asyncio.create_task(asker.wait(question.id))
        with pytest.raises(StillPending):
            await asker.wait(question.id, timeout=0.1)
        await person.answer(question.id, "a", by="ana")
        async with asyncio.timeout(SOON):
            assert isinstance(await waiting, Answered)


@promise("P8")
async def test_no_store_lets_the_asker_answer(address: str, workspace: str) -> None:
    """The desk refuses it before: here the store is asked as if the desk had not."""
    async with open_backend(address) as backend:
        draft = compose("Which?", {}, new_id="q", workspace=workspace, asker="bot", limits=Limits())
        [question] = await backend.store.insert([draft])
        assert isinstance(question, Question)
        bot = Responder("bot", frozenset({"ops"}))
        value = check_answer(question.form, "a")
        for move in (answer_move(question, bot, value), decline_move(question, bot)):
            assert isinstance((await backend.store.settle([move]))[0], Refused)
        [found] = await backend.store.read([question.ref])
        assert found is not None
        assert found.status is Status.PENDING


@pytest.fixture(params=[timedelta(hours=1), timedelta(hours=-1)], ids=["ahead", "behind"])
def _wrong_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of ours that asks this process for the time gets a wrong one."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + request.param

    for name, module in list(sys.modules.items()):
        if name.startswith("handraise.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Wrong)


@promise("P2")
@pytest.mark.usefixtures("_wrong_clock")
async def test_the_clock_of_the_database_decides_what_has_expired(postgres: str, workspace: str) -> None:
    async with open_desk(postgres, workspace=workspace, poll_interval=0.05) as desk:
        open_still = await desk.post("Which?", expires_in=timedelta(minutes=30))
        assert abs(open_still.asked_at - datetime.now().astimezone()) < timedelta(minutes=10)
        assert isinstance((await desk.answer(open_still.id, "a", by="ana")).outcome, Answered)
        soon_over = await desk.post("Which?", expires_in=timedelta(milliseconds=50))
        assert isinstance(await desk.wait(soon_over.id, timeout=SOON), Expired)


@promise("P4")
async def test_a_listener_stays_known_for_as_long_as_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_bus, "_HEARTBEAT", 0.01)
    path = tmp_path / "questions.db"
    async with open_desk(f"sqlite:///{path}") as desk:
        assert isinstance(desk, LocalDesk)
        question = await desk.post("Which?")
        waiting = asyncio.create_task(desk.wait(question.id, timeout=SOON))
        seen: set[int] = set()
        with closing(sqlite3.connect(path)) as look:
            async with asyncio.timeout(SOON):
                while len(seen) < 3:
                    seen |= {at for (at,) in look.execute("select seen_at from listeners")}
                    await asyncio.sleep(0.01)
        await desk.answer(question.id, "a", by="ana")
        assert isinstance(await waiting, Answered)
