"""A server seals what happens, beside everything else."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from handraise import Approval, open_desk
from handraise.cli import audit_commands
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.errors import UnsafeStore
from handraise.model.errors import StoreUnavailable
from handraise.model.seals import Seal
from handraise.server import ServerSettings
from handraise.server.context import ServerContext, open_server
from handraise.signing.key_files import load_signer, make_key
from tests.conftest import own_database

SOON = 10.0


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def settings(url: str, key: Path | None) -> ServerSettings:
    return ServerSettings(url=url, audit_key=key, seal_interval=0.05)


async def sealed(ctx: ServerContext, workspace: str, events: int) -> list[str | None]:
    """The keys of the chain, once it covers so many events."""
    async with asyncio.timeout(SOON):
        while True:
            seals = await ctx.ledger.seals(workspace, after=0, limit=100)
            if sum(len(seal.cursors) for seal in seals) >= events:
                return [seal.key_id for seal in seals]
            await asyncio.sleep(0.02)


async def kept(ctx: ServerContext, workspace: str) -> None:
    """Wait until the last seal is known next to the key."""
    assert ctx.signed_heads is not None
    async with asyncio.timeout(SOON):
        while True:
            last = (await ctx.ledger.head(workspace)).seal
            if last is not None and await ctx.signed_heads.find(workspace) == (last.number, last.digest):
                return
            await asyncio.sleep(0.02)


async def test_a_server_seals_and_signs_what_happens(key: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_server(settings(url, key)) as ctx:
        question = await ctx.desk.post("Now?")
        await ctx.desk.answer(question.id, "yes", by="ana")
        assert set(await sealed(ctx, "default", 2)) == {load_signer(key).key_id}


@pytest.fixture
def url() -> Iterator[str]:
    with own_database() as address:
        yield address


async def test_servers_side_by_side_make_one_chain(key: Path, url: str) -> None:
    async with open_server(settings(url, key)) as one, open_server(settings(url, key)) as other:
        for number in range(20):
            await (one, other)[number % 2].desk.post(f"{number}?")
        await sealed(one, "default", 20)
        seals = await other.ledger.seals("default", after=0, limit=100)
    cursors = [cursor for seal in seals for cursor in seal.cursors]
    assert len(cursors) == len(set(cursors)) == 20
    assert [seal.number for seal in seals] == list(range(1, len(seals) + 1))
    assert [each.previous for each in seals[1:]] == [each.digest for each in seals[:-1]]


async def test_a_server_without_the_key_says_once_that_it_leaves_a_signed_chain_alone(
    key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(ServerSettings(url="memory:", seal_interval=3_600)) as ctx:
        await ctx.desk.post("Now?")
        assert await Sealer(ctx.store, ctx.ledger, load_signer(key)).run() == 1
        await ctx.desk.post("And now?")
        sealer = Sealer(ctx.store, ctx.ledger)
        with caplog.at_level(logging.WARNING):
            assert [await sealer.run(), await sealer.run()] == [0, 0]
    said = [record.message for record in caplog.records if "does not seal it" in record.message]
    assert len(said) == 1
    assert load_signer(key).key_id in said[0]
    assert "which has no key" in said[0]


@pytest.mark.parametrize("then", ["left to the server", "sealed anew unsigned"])
async def test_a_store_that_was_rewritten_is_not_signed_and_an_operator_is_told(
    key: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, then: str
) -> None:
    file = tmp_path / "questions.db"
    url = f"sqlite:///{file}"
    async with open_server(settings(url, key)) as ctx:
        question = await ctx.desk.post("Pay?", form=Approval.of("pay", {"eur": 5}))
        await ctx.desk.answer(question.id, "deny", by="ana")
        await sealed(ctx, "default", 2)
        await kept(ctx, "default")
    rewrite(file)
    if then == "sealed anew unsigned":
        async with open_backend(url) as ports:
            assert await Sealer(ports.store, ports.ledger).run() == 1
    async with open_server(settings(url, key)) as ctx:
        await ctx.desk.post("And this?")
        async with asyncio.timeout(SOON):
            while b"handraise_audit_refused 1.0" not in ctx.metrics.render():
                await asyncio.sleep(0.02)
        seals = await ctx.ledger.seals("default", after=0, limit=10)
        assert [seal.key_id for seal in seals] == ([] if then == "left to the server" else [None])
    said = [record for record in caplog.records if "is not signed any more" in record.message]
    assert [record.levelno for record in said] == [logging.ERROR]
    assert "handraise audit accept" in said[0].message


async def test_events_that_cannot_be_sealed_are_in_the_metrics_until_they_can(tmp_path: Path) -> None:
    file = tmp_path / "questions.db"
    url = f"sqlite:///{file}"
    async with open_desk(url) as desk:
        await desk.post("Now?")
    change_kind(file, "asked", "no-such-kind")
    async with open_server(settings(url, None)) as ctx, asyncio.timeout(SOON):
        while b"handraise_audit_failed 1.0" not in ctx.metrics.render():
            await asyncio.sleep(0.02)
        change_kind(file, "no-such-kind", "asked")
        await sealed(ctx, "default", 1)
        while b"handraise_audit_failed 0.0" not in ctx.metrics.render():
            await asyncio.sleep(0.02)


def change_kind(file: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update events set kind = ? where kind = ?", (new, old))


async def test_a_seal_of_another_key_behind_ones_own_is_an_alarm_and_not_a_reason_to_stop_quietly(
    key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(ServerSettings(url="memory:", seal_interval=3_600)) as ctx:
        sealer = Sealer(ctx.store, ctx.ledger, load_signer(key))
        await ctx.desk.post("Now?")
        assert await sealer.run() == 1
        await ctx.desk.post("And now?")
        last = (await ctx.ledger.head("default")).seal
        assert last is not None
        [event] = await ctx.store.trail("default", after=last.cursor, limit=10)
        forged = replace(
            last,
            number=last.number + 1,
            previous=last.digest,
            cursor=event.cursor,
            cursors=(event.cursor,),
            leaves=(bytes(32),),
            key_id="deadbeef",
            signature=bytes(64),
        )
        assert await ctx.ledger.append(forged, removals=[])
        assert [await sealer.run(), await sealer.run()] == [0, 0]
        assert "deadbeef" in sealer.refused["default"]
    said = [record for record in caplog.records if "is not signed any more" in record.message]
    assert [record.levelno for record in said] == [logging.ERROR]
    assert "start it with the new key" in said[0].message


def rewrite(file: Path) -> None:
    """What somebody does who can write to the store and does not have the key: every denial becomes an approval."""
    with sqlite3.connect(file) as connection:
        for number, text in connection.execute(
            "select number, data from events where kind = 'answered'"
        ).fetchall():
            data = json.loads(text)
            data["value"]["decision"] = "approve"
            connection.execute("update events set data = ? where number = ?", (json.dumps(data), number))
        connection.execute("delete from seals")
    connection.close()


async def test_a_store_is_not_signed_anew_after_the_file_of_heads_was_lost(key: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_server(settings(url, key)) as ctx:
        await ctx.desk.post("Now?")
        await sealed(ctx, "default", 1)
        await kept(ctx, "default")
    with closing(sqlite3.connect(tmp_path / "questions.db")) as connection, connection:
        connection.execute("delete from seals")
    key.with_name("audit.heads").unlink()
    for _ in range(2):  # a second start does not forget it
        async with open_server(ServerSettings(url=url, audit_key=key, seal_interval=3_600)) as ctx:
            sealer = ctx.sealer()
            assert await sealer.run() == 0
            assert "was missing" in sealer.refused["default"]
    assert ctx.signed_heads is not None
    await ctx.signed_heads.reset("default", None)  # what `audit accept` does
    async with open_server(settings(url, key)) as ctx:
        await sealed(ctx, "default", 1)
        await kept(ctx, "default")


async def test_a_new_key_signs_what_was_there_before_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_server(settings(url, None)) as ctx:
        await ctx.desk.post("Now?")
    new = tmp_path / "new.key"
    audit_commands.key(new)
    async with open_server(settings(url, new)) as ctx:
        await sealed(ctx, "default", 1)


async def test_a_server_signs_what_other_servers_signed_before_it_came(key: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    places = [tmp_path / "one", tmp_path / "two"]
    for number, heads in enumerate([places[0], places[1], places[0]]):
        chosen = ServerSettings(url=url, audit_key=key, audit_heads=heads, seal_interval=0.05)
        async with open_server(chosen) as ctx:
            if number == 1:
                assert ctx.signed_heads is not None
                await ctx.signed_heads.reset(
                    "default", None
                )  # what `audit accept` does for a file of its own
            await ctx.desk.post(f"{number}?")
            await sealed(ctx, "default", number + 1)
            await kept(ctx, "default")
    assert all(path.stat().st_mode & 0o077 == 0 for path in places)


async def test_a_server_with_a_key_does_not_start_if_it_cannot_keep_what_it_signed(
    key: Path, tmp_path: Path
) -> None:
    chosen = ServerSettings(url="memory:", audit_key=key, audit_heads=tmp_path / "no" / "heads")
    with pytest.raises(UnsafeStore, match="HANDRAISE_AUDIT_HEADS"):
        async with open_server(chosen):
            pass


async def test_one_workspaces_trouble_is_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_server(ServerSettings(url="memory:", seal_interval=3_600)) as ctx:
        for workspace in ("a", "b", "c"):
            await ctx.desk.scoped(workspace).post("Now?")
        sealer = Sealer(ctx.store, ctx.ledger)
        whole = sealer.seal

        async def seal(workspace: str) -> int:
            if workspace == "b":
                raise StoreUnavailable("it moves")
            return await whole(workspace)

        monkeypatch.setattr(sealer, "seal", seal)
        assert await sealer.run() == 2
        assert await ctx.ledger.unsealed(limit=10) == ["b"]


async def test_what_was_appended_is_recorded_although_the_server_stops() -> None:
    began, may_go_on = asyncio.Event(), asyncio.Event()
    recorded = []

    async def record(seal: Seal) -> None:
        began.set()
        await may_go_on.wait()
        recorded.append(seal.number)

    async with open_server(ServerSettings(url="memory:", seal_interval=3_600)) as ctx:
        await ctx.desk.post("Now?")
        work = asyncio.create_task(Sealer(ctx.store, ctx.ledger, appended=record).run())
        async with asyncio.timeout(SOON):
            await began.wait()
            work.cancel()
            asyncio.get_running_loop().call_soon(may_go_on.set)
            await asyncio.gather(work, return_exceptions=True)
        assert work.cancelled()
        assert recorded == [1]


async def test_a_server_does_not_start_with_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UnsafeStore, match="no key in"):
        async with open_server(settings("memory:", tmp_path / "key")):
            pass
