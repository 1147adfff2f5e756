"""A store of the release before, with one of everything in it, is read and answered after a later migration."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from chaos.faults.rolling_upgrade import LATER, previous_release
from handraise import AlreadySettled, Answered, Approval
from handraise.backends.postgres import schema
from handraise.backends.sql_files import Migration
from handraise.backends.sqlite import backend as sqlite_backend
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.questions import Ref
from handraise.testing import promise
from tests.release.older import FORMS, PAY, TIMELINE, seen

OLDER = Path(__file__).with_name("older.py")
ENDED = {"approved": "answered", "granted": "answered"}


def left_by_the_release_before(address: str) -> dict[str, Any]:
    """Have the release before make the store, and leave one of everything there."""
    with previous_release() as source:
        done = subprocess.run(
            [sys.executable, str(OLDER), address],
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    left: dict[str, Any] = json.loads(done.stdout)
    return left


async def schema_of(address: str) -> int:
    """The number of the newest migration in a store."""
    if address.startswith("sqlite:"):
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            return int(connection.execute("pragma user_version").fetchone()[0])
    connected = await asyncpg.connect(address)
    try:
        return int(await connected.fetchval("select max(number) from handraise.migrations"))
    finally:
        await connected.close()


@promise("P1", "P3", "P6")
@pytest.mark.only_proof_of(
    "what the release before has stored can be read and answered after a later migration"
)
@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
async def test_what_the_release_before_left_is_read_as_it_was_and_can_be_answered(
    empty_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = await asyncio.to_thread(left_by_the_release_before, empty_address)
    for engine, module in (("postgres", schema), ("sqlite", sqlite_backend)):
        later = Migration(module.MIGRATIONS[-1].number + 1, "later", LATER[engine])
        monkeypatch.setattr(module, "MIGRATIONS", (*module.MIGRATIONS, later))
    newest = (sqlite_backend if empty_address.startswith("sqlite:") else schema).MIGRATIONS[-1].number
    assert await schema_of(empty_address) < newest

    async with open_backend(empty_address) as backend:
        assert await schema_of(empty_address) == newest
        async with desk_from_store(backend.store, backend.bus, asker="agent") as desk:
            # Everything reads as it did, with its history.
            for each in left["ids"]:
                assert seen(await desk.get(each)) == left["read"][each]
                assert [event.kind for event in await desk.history(each)] == left["kinds"][each]
            settled = {each.id for each in (await desk.list_settled()).items}
            assert settled == {*left["settled"].values()}
            assert {each.id for each in (await desk.list_pending()).items} == {*left["ids"]} - settled

            # What is settled stays so; what was approved is given out, once; a grant still holds.
            for how, each in left["settled"].items():
                assert (await desk.wait(each)).status == ENDED.get(how, how)
                with pytest.raises(AlreadySettled):
                    await desk.answer(each, "a", by="bob")
            assert await desk.consume_approval(left["settled"]["approved"]) == PAY.action
            again = await desk.post("Pay again?", form=PAY)
            assert await desk.apply_grant(again.id) is not None

            # What is pending can be answered: by its key, with the second vote, after an attempt.
            for kind, (form, value) in FORMS.items():
                assert (await desk.post(f"A {kind}?", form=form, key=kind)).id == left["pending"][kind]
                assert isinstance(
                    (await desk.answer(left["pending"][kind], value, by="ana")).outcome, Answered
                )
                assert (
                    not isinstance(form, Approval)
                    or await desk.consume_approval(left["pending"][kind]) == form.action
                )
            assert isinstance((await desk.answer(left["voted"], True, by="bob")).outcome, Answered)
            assert (await desk.get(left["voted"])).state == {"step": 3}
            assert isinstance((await desk.answer(left["tried"], "a", by="ana")).outcome, Answered)
            assert (await desk.get(left["timed"])).timeline == TIMELINE
            assert isinstance((await desk.answer(left["timed"], "me", by="ana")).outcome, Answered)

            # The feed goes on where it was; who was to be told still is; identities are known.
            wanted = {*left["pending"].values(), left["voted"]}
            async with asyncio.timeout(30):  # it may wait for a transaction that somebody else has under way
                while not {each.question_id for each in await desk.feed(after=left["feed"])} >= wanted:
                    await asyncio.sleep(0.01)
        (delivery,) = await backend.outbox.deliveries(Ref("default", left["told"]))
        assert (delivery.id, delivery.status) == (left["delivery"], "queued")
        person = await backend.directory.find_person("default", "ana")
        assert person is not None
        assert await backend.directory.find_key("default", "d" * 64) is not None
