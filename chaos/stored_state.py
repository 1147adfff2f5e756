"""The content of a store at the end of a run, in the words of a history."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import asyncpg

from chaos.history import seen
from chaos.history_checker import Stored
from handraise import Question
from handraise.desk.store_checks import check_store
from handraise.desk_factory import open_backend
from handraise.ports import Backend
from handraise.questions import Ref

_PAGE = 500
_EVERY = 1_000_000
_TRACES = (
    "select id from {0}questions where workspace = {1}",
    "select distinct question_id from {0}events where workspace = {1} and question_id <> ''",
    "select distinct question_id from {0}inbox where workspace = {1}",
)
_LEFT = (
    "select count(*) from {0}outbox where workspace = {1}",
    "select count(*) from {0}deliveries where workspace = {1} and due_at is not null",
)


async def stored_questions(address: str, workspace: str) -> list[Stored]:
    """Every question that has left a trace: a row, an event, or a place in the inbox."""
    async with open_backend(address) as backend:
        return await stored_in(backend, address, workspace)


async def stored_in(backend: Backend, address: str, workspace: str) -> list[Stored]:
    """The same of a store that is open already."""
    broken: dict[str, list[tuple[str, str]]] = defaultdict(list)
    checked = await check_store(backend, workspace, limit=_EVERY, nothing_erased=True)
    for each in checked.violations:
        broken[each.question_id].append((each.rule, each.text))
    told = {each.recipient for each in await backend.outbox.addresses(workspace)}
    ids = {row[0] for each in _TRACES for row in await _rows(address, each, workspace)}
    refs = [Ref(workspace, each) for each in sorted(ids | broken.keys())]
    stored: list[Stored] = []
    for page in (refs[start : start + _PAGE] for start in range(0, len(refs), _PAGE)):
        stored += await asyncio.gather(
            *(
                _stored(backend, ref, question, broken=broken.get(ref.id, ()), told=told)
                for ref, question in zip(page, await backend.store.read(page), strict=True)
            )
        )
    return stored


async def left_to_tell(address: str, workspace: str) -> int:
    """How many messages must still be planned, sent or changed."""
    return sum([(await _rows(address, each, workspace))[0][0] for each in _LEFT])


async def end_leases(address: str) -> None:
    """Release the deliveries of dead processes now, instead of after a minute and a half."""
    if address.startswith("sqlite:"):
        now = int(time.time() * 1_000_000)
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"), timeout=30)) as file, file:
            file.execute("update deliveries set due_at = ?1 where due_at > ?1 and turn > 0", (now,))
        return
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(
            "update handraise.deliveries set due_at = now() where due_at > now() and turn > 0"
        )
    finally:
        await connection.close()


async def _rows(address: str, sql: str, workspace: str) -> Sequence[Sequence[Any]]:
    """Read the tables directly: a feed leaves out what is newer than the oldest transaction of the whole server."""
    if address.startswith("sqlite:"):
        with closing(sqlite3.connect(address.removeprefix("sqlite:///"), timeout=30)) as file:
            return file.execute(sql.format("", "?"), (workspace,)).fetchall()
    connection = await asyncpg.connect(address)
    try:
        return [tuple(row) for row in await connection.fetch(sql.format("handraise.", "$1"), workspace)]
    finally:
        await connection.close()


async def _stored(
    backend: Backend,
    ref: Ref,
    question: Question | None,
    *,
    broken: Sequence[tuple[str, str]],
    told: set[str],
) -> Stored:
    logged = [(event.kind.value, event.by) for event in await backend.store.history(ref)]
    if question is None:
        return Stored(f"no row of {ref.id}", ref.id, "missing", events=logged, broken=broken)
    deliveries = await backend.outbox.deliveries(question.ref)
    return Stored(
        key=question.key or ref.id,
        id=ref.id,
        status=question.status.value,
        outcome=seen(question.outcome),
        quorum=question.quorum,
        ends=question.expires_at is not None,
        voters=[vote.by for vote in question.votes],
        consumed=question.consumed_at is not None,
        broken=broken,
        told=not told.isdisjoint(question.audience or ["*"]),
        events=logged,
        deliveries=[(each.id, each.status.value, each.due_at is not None) for each in deliveries],
    )
