"""Whoever writes to the database itself is found out; and the chain goes along when a workspace moves."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from handraise import open_desk
from handraise.backends.shards import move_workspace
from handraise.desk.exporting import export_lines
from handraise.desk.sealing import Sealer
from handraise.model.errors import StoreUnavailable
from handraise.model.verifying import HeadMark, Verdict, verify
from handraise.opening import open_backend
from handraise.ports import Backend
from handraise.server.audit_keys import KeySigner, checker, load_signer, make_key
from tests.conftest import own_shards

SOON = 20.0


@pytest.fixture
def signer(tmp_path: Path) -> KeySigner:
    make_key(tmp_path / "key")
    return load_signer(tmp_path / "key")


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'questions.db'}"
    found: str = request.getfixturevalue("postgres")
    return found


async def run(address: str, sql: str, *values: Any) -> None:
    """Do to the database what only its operator could."""
    if address.startswith("sqlite"):
        connection = sqlite3.connect(address.removeprefix("sqlite:///"))
        with connection:
            connection.execute(sql.replace("handraise.", "").replace("::jsonb", ""), values)
        connection.close()
        return
    for place in range(len(values)):
        sql = sql.replace("?", f"${place + 1}", 1)
    plain = await asyncpg.connect(address)
    try:
        await plain.execute(sql, *values)
    finally:
        await plain.close()


async def ask(address: str, workspace: str, questions: int) -> list[str]:
    ids = []
    async with open_desk(address, workspace=workspace) as desk:
        for number in range(questions):
            question = await desk.post(f"{number}?", choices=["yes", "no"])
            await desk.answer(question.id, "yes", by="ana")
            ids.append(question.id)
    return ids


async def sealed(ports: Backend, workspace: str, signer: KeySigner, events: int) -> None:
    """Seal until the chain covers so many events: the feed waits for whoever else has a transaction."""
    sealer = Sealer(ports.store, ports.ledger, signer)
    async with asyncio.timeout(SOON):
        while True:
            await sealer.seal(workspace)
            seals = await ports.ledger.seals(workspace, after=0, limit=1_000)
            if sum(len(seal.cursors) for seal in seals) >= events and not await ports.ledger.removals(
                workspace, seal=None, limit=1
            ):
                return
            await asyncio.sleep(0.02)


async def judged(ports: Backend, workspace: str, signer: KeySigner, tmp_path: Path) -> Verdict:
    lines = [line async for line in export_lines(ports.store, ports.ledger, workspace, signer)]
    return verify(lambda: lines, check=checker([tmp_path / "key.pub"]))


TAMPERING = {
    "an answer": 'update handraise.events set data = \'{"value":"no"}\'::jsonb '
    "where workspace = ? and question_id = ? and kind = 'answered'",
    "who": "update handraise.events set actor = 'bob' where workspace = ? and question_id = ? and kind = 'answered'",
    "the question": "update handraise.questions set prompt = 'Else' where workspace = ? and id = ?",
    "an event away": "delete from handraise.events where workspace = ? and question_id = ? and kind = 'answered'",
    "a salt": "delete from handraise.salts where workspace = ? and question_id = ?",
}


@pytest.mark.parametrize("what", TAMPERING)
async def test_what_is_changed_in_the_database_is_found_and_named(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path, what: str
) -> None:
    ids = await ask(address, workspace, 3)
    async with open_backend(address) as ports:
        await sealed(ports, workspace, signer, 6)
        assert (await judged(ports, workspace, signer, tmp_path)).fault is None
        history = await ports.store.feed(workspace, after=None, limit=10)
        of_second = {event.kind.value: event.cursor for event in history if event.question_id == ids[1]}
        await run(address, TAMPERING[what], workspace, ids[1])
        fault = (await judged(ports, workspace, signer, tmp_path)).fault
    assert fault is not None
    first = "asked" if what in ("the question", "a salt") else "answered"
    assert fault.cursor == of_second[first]


async def test_an_event_that_somebody_puts_between_is_found(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path
) -> None:
    await ask(address, workspace, 2)
    async with open_backend(address) as ports:
        await sealed(ports, workspace, signer, 4)
        (first, *_) = await ports.store.feed(workspace, after=None, limit=1)
        values = (workspace, first.question_id)
        if address.startswith("sqlite"):
            sql = (
                "insert into events (number, workspace, question_id, kind, at) "
                "select min(number) - 1000, ?, ?, 'consumed', 0 from events"
            )
        else:
            sql = (
                "insert into handraise.events (transaction, workspace, question_id, kind, at) "
                "select min(transaction), ?, ?, 'consumed', now() from handraise.events"
            )
        await run(address, sql, *values)
        fault = (await judged(ports, workspace, signer, tmp_path)).fault
    assert fault is not None
    assert fault.cursor not in (None, first.cursor)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
async def test_seals_that_somebody_deletes_are_found(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path, which: str
) -> None:
    async with open_backend(address) as ports:
        for number in range(3):
            await ask(address, workspace, 1)
            await sealed(ports, workspace, signer, 2 * (number + 1))
        last = (await ports.ledger.head(workspace)).seal
        assert last is not None
        number = {"first": 1, "middle": 2, "last": last.number}[which]
        await run(
            address, "delete from handraise.seals where workspace = ? and number = ?", workspace, number
        )
        lines = [line async for line in refusing(ports, workspace, signer)]
        marks = [HeadMark(last.number, last.digest)] if which == "last" else []
        fault = verify(lambda: lines, check=checker([tmp_path / "key.pub"]), known=marks).fault
    assert fault is not None


async def refusing(ports: Backend, workspace: str, signer: KeySigner) -> AsyncIterator[str]:
    """An export as whoever deleted something would make it: one that does not notice a gap."""
    try:
        async for line in export_lines(ports.store, ports.ledger, workspace, signer):
            yield line
    except StoreUnavailable:
        return


async def test_the_application_cannot_change_what_is_sealed(
    postgres: str, workspace: str, signer: KeySigner
) -> None:
    await ask(postgres, workspace, 1)
    async with open_backend(postgres, confined=True) as ports:
        await sealed(ports, workspace, signer, 2)
    plain = await asyncpg.connect(postgres)
    try:
        for sql in (
            "delete from handraise.seals",
            "update handraise.seals set number = 7",
            "insert into handraise.seals select * from handraise.seals",
            "delete from handraise.removals",
            "update handraise.salts set salt = ''",
            "delete from handraise.salts",
            "update handraise.events set actor = 'bob'",
            "delete from handraise.events",
        ):
            await plain.execute("set role handraise_app")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await plain.execute(sql)
    finally:
        await plain.close()


@pytest.fixture
def two_shards() -> Iterator[str]:
    with own_shards(2) as address:
        yield address


@pytest.mark.slow("moves between shards; tests/backends/test_shards.py moves everything in the gate")
async def test_a_workspace_that_moves_takes_its_chain_along(
    two_shards: str, workspace: str, signer: KeySigner, tmp_path: Path
) -> None:
    ids = await ask(two_shards, workspace, 2)
    placements = two_shards.replace("postgresql+shards:", "postgresql:", 1)
    async with open_backend(two_shards) as ports:
        await sealed(ports, workspace, signer, 4)
        before = await ports.ledger.seals(workspace, after=0, limit=100)
        await ports.ledger.erase(workspace, [ids[0]], by="op")
        for to in (2, 1, 2):
            await move_workspace(placements, workspace, to=to)
        assert await ports.ledger.seals(workspace, after=0, limit=100) == before
        await ask(two_shards, workspace, 1)
        await sealed(ports, workspace, signer, 6)
        verdict = await judged(ports, workspace, signer, tmp_path)
    assert (verdict.fault, verdict.events, verdict.erased) == (None, 4, 2)
