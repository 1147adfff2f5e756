"""Every store decides about votes with needs as `transition` in the model does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handraise import Choice, Question, Responder
from handraise.backends.postgres import open_postgres
from handraise.backends.sqlite import open_sqlite
from handraise.backends.sqlite.memory import open_memory
from handraise.model.identities import Role
from handraise.model.lifecycle import answer_move, decline_move
from handraise.model.questions import Draft, Need
from handraise.ports import Backend, Filter
from handraise.testing import ManualClock

PEOPLE = ("ana", "bob", "cy", 'o\'h "x" \\', "1", "agent")
GROUPS = ("finance", "legal", "1")
NAMES = (*PEOPLE[:-1], *(f"group:{name}" for name in GROUPS))

names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
needs = st.lists(
    st.builds(Need, people=names, count=st.integers(1, 2), stage=st.integers(0, 2)), max_size=3
).map(tuple)
groups = st.frozensets(st.sampled_from(GROUPS))
votes = st.tuples(
    st.just("vote"), st.sampled_from(PEOPLE), groups, st.sampled_from(["a", "a", "a", "b", None])
)
memberships = st.tuples(st.just("group"), st.sampled_from(GROUPS), st.frozensets(st.sampled_from(PEOPLE[:4])))
removals = st.tuples(st.just("remove"), st.sampled_from(PEOPLE[:4]))
deeds = st.lists(st.one_of(votes, votes, votes, memberships, removals), max_size=12)


@pytest.mark.slow("a hundred random lives; the contract has the cases that matter")
@pytest.mark.timeout(600)
def test_votes_with_needs_are_decided_alike_everywhere(postgres: str, tmp_path: Path) -> None:
    clock = ManualClock()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def opened() -> list[Backend]:
            return [
                await stack.enter_async_context(each)
                for each in (
                    open_memory(clock=clock),
                    open_sqlite(tmp_path / "questions.db", clock=clock),
                    open_postgres(postgres, clock=clock, confined=True),
                )
            ]

        backends = runner.run(opened())

        @settings(
            max_examples=100,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(needs=needs, quorum=st.integers(1, 3), veto=st.booleans(), deeds=deeds)
        def alike(needs: tuple[Need, ...], quorum: int, *, veto: bool, deeds: list[tuple[Any, ...]]) -> None:
            draft = Draft(
                id=uuid.uuid4().hex,
                workspace=f"needs-{uuid.uuid4().hex}",
                asker="agent",
                prompt="Which?",
                form=Choice.of("a", "b"),
                recipients=NAMES,
                needs=needs,
                quorum=quorum,
                veto=veto,
            )
            reference, *others = (runner.run(_live(each, draft, deeds)) for each in backends)
            for other in others:
                assert other == reference

        try:
            alike()
        finally:
            runner.run(stack.aclose())


async def _live(backend: Backend, draft: Draft, deeds: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What becomes of a question: the result of each deed, the inbox of each person after it, and the history."""
    workspace, directory, store = draft.workspace, backend.directory, backend.store
    for person in PEOPLE[:3]:
        await directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
    await directory.put_group(workspace, "finance", ["ana", "bob"])
    await directory.put_group(workspace, "legal", ["bob"])
    (question,) = await store.insert([draft])
    assert isinstance(question, Question)
    told: list[Any] = [await _inboxes(backend, workspace)]
    for kind, *what in deeds:
        match kind:
            case "vote":
                person, vouched, value = what
                responder = Responder(person, vouched)
                move = (
                    decline_move(question, responder)
                    if value is None
                    else answer_move(question, responder, value)
                )
                told += await store.settle([move])
                told.append(await _inboxes(backend, workspace))
            case "group":
                group, people = what
                for person in people:
                    await directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
                await directory.put_group(workspace, group, sorted(people))
            case "remove":
                await directory.remove_person(workspace, what[0])
    told += await store.read([draft.ref])
    told += [(each.kind, each.by, each.data) for each in await store.history(draft.ref)]
    return told


async def _inboxes(backend: Backend, workspace: str) -> list[int]:
    """How many questions wait for some people, and for somebody of each group."""
    found = []
    for each in (
        Responder("ana"),
        Responder("1"),
        *(Responder("new", frozenset({group})) for group in GROUPS),
    ):
        where = Filter(workspace=workspace, recipient=each)
        found.append(len(await backend.store.pending(where, after=None, limit=2)))
    return found
