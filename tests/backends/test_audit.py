"""Whoever writes to the database itself is found out; and the chain goes along when a workspace moves."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from handraise import Approval, NotApproved, open_desk
from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import Sealer
from handraise.desk_factory import open_backend
from handraise.errors import UnsafeStore
from handraise.model.audit_verification import Verdict, verify
from handraise.model.errors import StoreUnavailable
from handraise.model.seals import HeadMark, Rule
from handraise.ports import Backend
from handraise.signing.key_files import KeySigner, load_signer, make_key, trusted_key
from handraise.testing.promises import promise

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


async def run(address: str, sql: str, *values: Any, above_triggers: bool = True) -> None:
    """Do to the database what only its operator could, whom no trigger holds up."""
    if address.startswith("sqlite"):
        connection = sqlite3.connect(address.removeprefix("sqlite:///"))
        with connection:
            for trigger in ("asked_stays", "settled_stays") if above_triggers else ():
                connection.execute(f"drop trigger if exists {trigger}")
            connection.execute(sql.replace("handraise.", "").replace("::jsonb", ""), values)
        connection.close()
        return
    for place in range(len(values)):
        sql = sql.replace("?", f"${place + 1}", 1)
    plain = await asyncpg.connect(address)
    try:
        if above_triggers:
            await plain.execute("set session_replication_role = replica")
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
    return verify(lambda: lines, keys=[trusted_key(tmp_path / "key.pub")])


TAMPERING = {
    "an answer": 'update handraise.events set data = \'{"value":"no"}\'::jsonb '
    "where workspace = ? and question_id = ? and kind = 'answered'",
    "who": "update handraise.events set actor = 'bob' where workspace = ? and question_id = ? and kind = 'answered'",
    "the question": "update handraise.questions set prompt = 'Else' where workspace = ? and id = ?",
    "the outcome": 'update handraise.questions set outcome = \'{"value":"no","by":"ana"}\' '
    "where workspace = ? and id = ?",
    "the status": "update handraise.questions set status = 'pending', settled_at = null, outcome = null "
    "where workspace = ? and id = ?",
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
    if what in ("the outcome", "the status"):
        assert (fault.cursor, fault.question_id) == (None, ids[1])
        assert "the row of the question says something else" in fault.why
        return
    first = "asked" if what in ("the question", "a salt") else "answered"
    assert fault.cursor == of_second[first]


async def test_what_happens_after_the_last_seal_is_no_fault(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path
) -> None:
    async with open_desk(address, workspace=workspace) as desk, open_backend(address) as ports:
        form = Approval.of("pay", {"eur": 5.0})
        first, second = [await desk.post("Pay?", form=form, quorum=quorum) for quorum in (1, 2)]
        await desk.answer(second.id, "approve", by="ana")
        await sealed(ports, workspace, signer, 3)
        await desk.answer(first.id, "approve", by="ana")
        await desk.consume_approval(first.id)
        await desk.answer(second.id, "approve", by="bob")
        verdict = await judged(ports, workspace, signer, tmp_path)
        assert (verdict.fault, verdict.questions) == (None, 2)
        await sealed(ports, workspace, signer, 6)
        verdict = await judged(ports, workspace, signer, tmp_path)
        assert (verdict.fault, verdict.questions) == (None, 2)


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
        fault = verify(lambda: lines, keys=[trusted_key(tmp_path / "key.pub")], known=marks).fault
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


async def test_the_application_cannot_let_go_of_seals_by_saying_so(
    postgres: str, workspace: str, signer: KeySigner
) -> None:
    await ask(postgres, workspace, 2)
    async with open_backend(postgres, confined=True) as ports:
        await sealed(ports, workspace, signer, 4)
        before = await ports.ledger.seals(workspace, after=0, limit=100)
        cursors = [event.cursor for event in await ports.store.feed(workspace, after=None, limit=10)]
    last, (transaction, _, number) = before[-1], cursors[-1].partition(".")
    plain = await asyncpg.connect(postgres)
    try:
        await plain.execute("set role handraise_app")
        for key_id in (None, "a-key"):
            appended = await plain.fetchval(
                "select handraise.append_seal($1, $2, $2, '0', 0, $3::text::xid8, $4, now(), $5, $6, $7, 4, null, $8, '{}')",
                workspace,
                last.number + 1,
                transaction,
                int(number),
                last.digest,
                bytes(32 * 4),
                ",".join(cursors),
                key_id,
            )
            assert appended is False
    finally:
        await plain.close()
    async with open_backend(postgres) as ports:
        assert await ports.ledger.seals(workspace, after=0, limit=100) == before


async def test_the_application_can_neither_erase_nor_remove_nor_lift_a_hold(postgres: str) -> None:
    plain = await asyncpg.connect(postgres)
    try:
        await plain.execute("set role handraise_app")
        for sql in (
            "select handraise.erase_questions('default', '{}', 'ana', now())",
            "select handraise.erase_person('default', 'ana')",
            "select handraise.remove_settled(now(), now(), 1, '', '0', 0)",
            "insert into handraise.retention (workspace, keep) values ('default', interval '0')",
            "delete from handraise.holds",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await plain.execute(sql)
    finally:
        await plain.close()


@pytest.mark.parametrize("keeper", [False, True], ids=["a server's login", "a keeper's login"])
async def test_only_a_keeper_erases_and_removes(
    postgres: str, workspace: str, caplog: pytest.LogCaptureFixture, *, keeper: bool
) -> None:
    (question,) = await ask(postgres, workspace, 1)
    name = f"keeper_{uuid.uuid4().hex[:12]}"
    roles = "handraise_app, handraise_keeper" if keeper else "handraise_app"
    await run(postgres, f"create role {name} login in role {roles}")
    parts = urlsplit(postgres)
    login = urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    try:
        async with open_backend(login, confined=True) as ports:
            if keeper:
                assert await ports.ledger.erase(workspace, [question], by="op") == [question]
                await ports.ledger.put_rule(workspace, Rule(timedelta(days=1)))
            else:
                with pytest.raises(UnsafeStore, match="handraise_keeper"):
                    await ports.ledger.erase(workspace, [question], by="op")
                with pytest.raises(UnsafeStore, match="handraise_keeper"):
                    await ports.ledger.put_rule(workspace, Rule(timedelta(0)))
            await ports.store.tidy(keep=timedelta(days=999), limit=10)
    finally:
        await run(postgres, f"drop role {name}")
    assert ("handraise retention run" in caplog.text) is not keeper


CHANGES_AFTER_THE_END = {
    "open again": "status = 'pending', settled_at = null, outcome = null",
    "another ending": "status = 'declined'",
    "another answer": 'outcome = \'{"value": "no", "by": "ana"}\'',
    "another question": "prompt = 'Pay a million'",
    "another form": "form = '{}'",
    "another asker": "asker = 'mallory'",
    "not used up": "consumed_at = null",
}


@promise("P6")
@pytest.mark.parametrize("change", CHANGES_AFTER_THE_END)
async def test_the_database_itself_keeps_what_was_asked_and_how_it_ended(
    address: str, workspace: str, change: str
) -> None:
    async with open_desk(address, workspace=workspace) as desk:
        question = await desk.post("Pay?", form=Approval.of("pay", {"eur": 5}))
        await desk.answer(question.id, "approve", by="ana")
        await desk.consume_approval(question.id)
        before = await desk.get(question.id)
        sql = f"update handraise.questions set {CHANGES_AFTER_THE_END[change]} where workspace = ? and id = ?"  # noqa: S608 -- ours
        with pytest.raises(
            (sqlite3.IntegrityError, asyncpg.PostgresError), match=r"does not change|used up once"
        ):
            await run(address, sql, workspace, question.id, above_triggers=False)
        assert await desk.get(question.id) == before


@promise("P11")
async def test_an_approval_that_is_only_in_the_row_is_not_executed(address: str, workspace: str) -> None:
    async with open_desk(address, workspace=workspace) as desk:
        form = Approval.of("pay", {"eur": 5})
        question = await desk.post("Pay?", form=form)
        await desk.answer(question.id, "deny", by="ana")
        forged = json.dumps({"value": {"decision": "approve", "digest": form.action.digest}, "by": "ana"})
        sql = f"update handraise.questions set outcome = '{forged}' where workspace = ? and id = ?"  # noqa: S608 -- ours
        await run(address, sql, workspace, question.id)
    async with open_desk(address, workspace=workspace) as desk:
        assert (await desk.get(question.id)).decision
        with pytest.raises(NotApproved, match="history does not say"):
            await desk.consume_approval(question.id)
        assert (await desk.get(question.id)).consumed_at is None


@pytest.mark.parametrize(
    "required", [{"stages": [["ana"], ["boss"]]}, {"people": ["ana", "boss"], "quorum": 2}], ids=str
)
async def test_an_approval_by_somebody_who_was_not_asked_is_found_also_if_it_is_sealed(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path, required: dict[str, Any]
) -> None:
    form = Approval.of("pay", {"eur": 5})
    rule = {"name": "two", "then": {"require": required}}
    async with open_backend(address) as ports:
        await ports.policies.put(workspace, {"time_zone": "UTC", "rules": [rule]}, by="olga", expected=0)
        async with open_desk(address, workspace=workspace) as desk:
            question = await desk.post("Pay?", form=form)
            for name in ("ana", "boss"):
                await desk.answer(question.id, "approve", by=name)
        forged = json.dumps({"value": {"decision": "approve", "digest": form.action.digest}, "by": "eve"})
        events = f"update handraise.events set actor = 'eve', data = '{forged}'::jsonb "  # noqa: S608 -- ours
        row = f"update handraise.questions set outcome = '{forged}' where workspace = ? and id = ?"  # noqa: S608 -- ours
        for sql in (events + "where workspace = ? and question_id = ? and kind = 'answered'", row):
            await run(address, sql, workspace, question.id)
        await sealed(ports, workspace, signer, 4)
        fault = (await judged(ports, workspace, signer, tmp_path)).fault
    assert fault is not None
    assert fault.question_id == question.id
    assert "'eve' was not asked" in fault.why


async def test_an_approval_without_somebody_who_had_to_agree_is_found_also_if_it_is_sealed(
    address: str, workspace: str, signer: KeySigner, tmp_path: Path
) -> None:
    rule = {"name": "two", "then": {"require": {"also": ["boss"]}}}
    async with open_backend(address) as ports:
        await ports.policies.put(workspace, {"time_zone": "UTC", "rules": [rule]}, by="olga", expected=0)
        async with open_desk(address, workspace=workspace) as desk:
            question = await desk.post("Pay?", form=Approval.of("pay", {"eur": 5}))
            for name in ("boss", "ana"):
                await desk.answer(question.id, "approve", by=name)
        sql = "update handraise.events set actor = 'bo' where workspace = ? and question_id = ? and kind = 'voted'"
        await run(address, sql, workspace, question.id)
        await sealed(ports, workspace, signer, 4)
        fault = (await judged(ports, workspace, signer, tmp_path)).fault
    assert fault is not None
    assert fault.question_id == question.id
    assert "1 people had to agree, and only 0 did: boss" in fault.why
