"""A server seals what happens, beside everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from handraise import UnsafeStore
from handraise.desk.sealing import Sealer
from handraise.model.errors import StoreUnavailable
from handraise.server import ServerSettings
from handraise.server.audit_keys import load_signer, make_key
from handraise.server.house import House, open_house
from tests.conftest import own_database

SOON = 10.0


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "key")
    return tmp_path / "key"


def settings(url: str, key: Path | None) -> ServerSettings:
    return ServerSettings(url=url, audit_key=key, seal_interval=0.05)


async def sealed(house: House, workspace: str, events: int) -> list[str | None]:
    """The keys of the chain, once it covers so many events."""
    async with asyncio.timeout(SOON):
        while True:
            seals = await house.ledger.seals(workspace, after=0, limit=100)
            if sum(len(seal.cursors) for seal in seals) >= events:
                return [seal.key_id for seal in seals]
            await asyncio.sleep(0.02)


async def test_a_server_seals_and_signs_what_happens(key: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with open_house(settings(url, key)) as house:
        question = await house.desk.post("Now?")
        await house.desk.answer(question.id, "yes", by="ana")
        assert set(await sealed(house, "default", 2)) == {load_signer(key).key_id}


@pytest.fixture
def url() -> Iterator[str]:
    with own_database() as address:
        yield address


async def test_servers_side_by_side_make_one_chain(key: Path, url: str) -> None:
    async with open_house(settings(url, key)) as one, open_house(settings(url, key)) as other:
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
    async with open_house(ServerSettings(url="memory:", seal_interval=3_600)) as house:
        await house.desk.post("Now?")
        assert await Sealer(house.store, house.ledger, load_signer(key)).run() == 1
        await house.desk.post("And now?")
        sealer = Sealer(house.store, house.ledger)
        with caplog.at_level(logging.WARNING):
            assert [await sealer.run(), await sealer.run()] == [0, 0]
    said = [record.message for record in caplog.records if "does not seal it" in record.message]
    assert len(said) == 1
    assert load_signer(key).key_id in said[0]
    assert "which has no key" in said[0]


async def test_one_workspaces_trouble_is_not_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house(ServerSettings(url="memory:", seal_interval=3_600)) as house:
        for workspace in ("a", "b", "c"):
            await house.desk.at(workspace).post("Now?")
        sealer = Sealer(house.store, house.ledger)
        whole = sealer.seal

        async def seal(workspace: str) -> int:
            if workspace == "b":
                raise StoreUnavailable("it moves")
            return await whole(workspace)

        monkeypatch.setattr(sealer, "seal", seal)
        assert await sealer.run() == 2
        assert await house.ledger.unsealed(limit=10) == ["b"]


async def test_a_server_does_not_start_with_a_key_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UnsafeStore, match="no key in"):
        async with open_house(settings("memory:", tmp_path / "key")):
            pass
