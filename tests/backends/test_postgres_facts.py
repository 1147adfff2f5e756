"""What a decision in PostgreSQL was made from stays so until it is saved: whoever would change it waits, or comes first."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from handraise import Approval, Confirm, Question, Responder
from handraise.backends.sql import decided_changes
from handraise.desk_factory import open_backend
from handraise.desks import Desk, desk_from_store
from handraise.errors import AlreadySettled, PermissionDenied, Stopped
from handraise.model.identities import Role
from handraise.model.questions import Draft, Need
from handraise.ports import Backend
from handraise.testing import promise

SOON = 10.0
PAY = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
OPS = Responder("ana", frozenset({"ops"}))


@pytest.fixture
async def opened(postgres: str) -> AsyncIterator[tuple[Backend, Desk, str]]:
    workspace = f"facts-{uuid.uuid4().hex}"
    async with open_backend(postgres) as backend:
        await backend.directory.put_person(workspace, "ana", name="Ana", email=None, role=Role.MEMBER)
        await backend.directory.put_group(workspace, "ops", ["ana"])
        async with desk_from_store(backend.store, backend.bus, workspace=workspace) as desk:
            yield backend, desk, workspace


@asynccontextmanager
async def held_before_saving(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """Hold every change after it was decided; the event says that one was."""
    save, decided, go_on = decided_changes.save, asyncio.Event(), asyncio.Event()

    async def held(*arguments: Any) -> None:
        decided.set()
        await go_on.wait()
        await save(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(decided_changes, "save", held)
        try:
            yield decided
        finally:
            go_on.set()


async def by_vote(backend: Backend, desk: Desk, workspace: str) -> Callable[[], Awaitable[Question]]:
    """A vote that settles a question because the directory has its voter in a group."""
    need = Draft(
        id=uuid.uuid4().hex,
        workspace=workspace,
        asker="agent",
        prompt="?",
        form=Confirm(),
        needs=(Need(("group:ops",)),),
    )
    await backend.store.insert([need])
    return lambda: desk.answer(need.id, True, by="ana")


async def by_grant(backend: Backend, desk: Desk, workspace: str) -> Callable[[], Awaitable[Question]]:  # noqa: ARG001
    """An approval by a grant whose giver has the right from the directory."""
    first = await desk.post("Pay?", form=PAY, recipients=["group:ops"])
    await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by=OPS)
    again = await desk.post("Pay?", form=PAY, recipients=["group:ops"])

    async def apply() -> Question:
        return await desk.apply_grant(again.id) or again

    return apply


async def by_answer(backend: Backend, desk: Desk, workspace: str) -> Callable[[], Awaitable[Question]]:  # noqa: ARG001
    """A plain approval."""
    question = await desk.post("Pay?", form=PAY)
    return lambda: desk.answer(question.id, "approve", by="ana")


async def stop(backend: Backend, desk: Desk, workspace: str) -> None:  # noqa: ARG001
    await backend.policies.stop(workspace, why="wrong account", by="olga")


async def disable(backend: Backend, desk: Desk, workspace: str) -> None:  # noqa: ARG001
    await backend.directory.disable_person(workspace, "ana", by="olga")


async def remove(backend: Backend, desk: Desk, workspace: str) -> None:  # noqa: ARG001
    await backend.directory.remove_person(workspace, "ana")


async def leave(backend: Backend, desk: Desk, workspace: str) -> None:  # noqa: ARG001
    await backend.directory.put_group(workspace, "ops", [])


async def revoke(backend: Backend, desk: Desk, workspace: str) -> None:  # noqa: ARG001
    (grant,) = await desk.list_grants()
    await desk.revoke_grant(grant.id, by="olga")


DECIDED_BY: Sequence[tuple[Any, Any]] = [
    (by_answer, stop),
    (by_vote, disable),
    (by_vote, remove),
    (by_vote, leave),
    (by_grant, stop),
    (by_grant, disable),
    (by_grant, remove),
    (by_grant, leave),
    (by_grant, revoke),
]


def _named(value: Any) -> str:
    return str(value.__name__)


@promise("P11")
@promise("P18")
@pytest.mark.parametrize(("prepare", "change"), DECIDED_BY, ids=_named)
async def test_who_changes_what_was_decided_by_waits_until_it_is_saved(
    opened: tuple[Backend, Desk, str], monkeypatch: pytest.MonkeyPatch, prepare: Any, change: Any
) -> None:
    deciding = await prepare(*opened)
    async with asyncio.timeout(3 * SOON):
        async with held_before_saving(monkeypatch) as decided:
            settling = asyncio.create_task(deciding())
            await decided.wait()
            changing = asyncio.create_task(change(*opened))
            done, _ = await asyncio.wait([changing], timeout=0.3)
            assert not done, "it was acknowledged beside a decision that had not seen it"
        assert (await settling).status == "answered"
        await changing


@promise("P11")
@pytest.mark.parametrize(("prepare", "change"), DECIDED_BY, ids=_named)
async def test_what_was_changed_while_a_decision_waited_for_its_question_is_seen(
    opened: tuple[Backend, Desk, str], postgres: str, prepare: Any, change: Any
) -> None:
    deciding, holder = await prepare(*opened), await asyncpg.connect(postgres)
    async with asyncio.timeout(3 * SOON):
        held = holder.transaction()
        await held.start()
        await holder.execute("select from handraise.questions where workspace = $1 for update", opened[2])
        settling = asyncio.create_task(deciding())
        await _blocked(holder)
        changing = asyncio.create_task(change(*opened))
        await asyncio.wait([changing], timeout=1)
        is_acknowledged = changing.done()
        await held.rollback()
        try:
            is_settled = (await settling).outcome is not None
        except (AlreadySettled, PermissionDenied, Stopped):
            is_settled = False
        await changing
    await holder.close()
    assert not (is_acknowledged and is_settled), "what was acknowledged before was overlooked"


@promise("P11")
async def test_who_leaves_a_group_while_the_lock_on_it_is_waited_for_has_left(
    opened: tuple[Backend, Desk, str], postgres: str
) -> None:
    vote, holder, workspace = await by_vote(*opened), await asyncpg.connect(postgres), opened[2]
    async with asyncio.timeout(3 * SOON):
        leaving = holder.transaction()
        await leaving.start()
        await holder.execute("select pg_advisory_xact_lock(handraise.group_lock($1, 'ops'))", workspace)
        voting = asyncio.ensure_future(vote())
        await _blocked(holder)
        await holder.execute("delete from handraise.members where workspace = $1", workspace)
        await leaving.commit()
        assert (await voting).outcome is None, "a vote that meets no need settles nothing"
    await holder.close()


async def _blocked(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Return once somebody waits for a lock."""
    waiting = "select count(*) from pg_locks where not granted"
    while not await connection.fetchval(waiting):
        await asyncio.sleep(0.01)
