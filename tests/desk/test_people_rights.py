"""Who leaves, and what that person leaves behind: no question may be in nobody's inbox without anybody noticing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from handraise import Question
from handraise.desk.departures import departure_of
from handraise.desk.engine import Engine
from handraise.desk.handover_returns import questions_by_name
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk.people_rights import disable_person, remove_person
from handraise.desk_factory import open_backend
from handraise.events import EventKind
from handraise.model.away import Away
from handraise.model.drafting import Limits
from handraise.model.identities import Role
from handraise.model.people import Responder
from handraise.ports import Backend, Filter

Leave = Callable[[Backend, str, str], Awaitable[None]]


async def _removed(ports: Backend, workspace: str, person: str) -> None:
    assert await remove_person(ports, workspace, person, by="boss")


async def _disabled(ports: Backend, workspace: str, person: str) -> None:
    assert await disable_person(ports, workspace, person, by="boss")


both = pytest.mark.parametrize("leave", [_removed, _disabled])


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.slow("the contract has what it is made of")),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "sqlite":
            return f"sqlite:///{tmp_path / 'questions.db'}"
        case _:
            found: str = request.getfixturevalue("postgres")
            return found


@pytest.fixture
async def ports(url: str, workspace: str) -> AsyncIterator[Backend]:
    async with open_backend(url) as ports:
        for person in ("ann", "bob", "cid", "dan"):
            await ports.directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
        yield ports


@pytest.fixture
async def desk(ports: Backend, workspace: str) -> AsyncIterator[LocalDesk]:
    engine = Engine(ports.store, ports.bus, poll_interval=0.05)
    yield LocalDesk(engine, workspace=workspace, asker="bot", new_id=uuid7_ids(), limits=Limits())
    await engine.close()


async def has(ports: Backend, person: str, question: Question) -> bool:
    """Whether it is in somebody's inbox."""
    where = Filter(workspace=question.workspace, recipient=Responder(person))
    page = await ports.store.by_urgency(where, after=None, limit=100)
    return question.id in [each.id for each in page.places]


@both
async def test_what_was_handed_over_to_somebody_who_leaves_is_back_with_who_gave_it(
    ports: Backend, desk: LocalDesk, workspace: str, leave: Leave
) -> None:
    question = await desk.post("Go?", recipients=["ann"])
    await desk.hand_over(question.id, ["bob"], by="ann")
    assert not await has(ports, "ann", question)
    await leave(ports, workspace, "bob")
    assert await has(ports, "ann", question)
    last = (await desk.history(question.id))[-1]
    assert (last.kind, last.by, last.data) == (EventKind.PUT_BACK, "ann", {"instead_of": "bob"})
    answered = await desk.answer(question.id, "yes", by="ann")
    assert answered.outcome is not None


@both
async def test_what_was_handed_on_goes_back_to_the_last_one_who_is_there(
    ports: Backend, desk: LocalDesk, workspace: str, leave: Leave
) -> None:
    question = await desk.post("Go?", recipients=["ann"])
    await desk.hand_over(question.id, ["bob"], by="ann")
    await desk.hand_over(question.id, ["cid"], by="bob")
    await leave(ports, workspace, "bob")
    assert await has(ports, "cid", question)
    assert not await has(ports, "ann", question), "cid has it"
    await leave(ports, workspace, "cid")
    assert await has(ports, "ann", question)


async def test_what_was_handed_on_twice_stays_with_the_last(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Go?", recipients=["ann"])
    for giver, receiver in (("ann", "bob"), ("bob", "cid"), ("cid", "dan")):
        await desk.hand_over(question.id, [receiver], by=giver)
    await _disabled(ports, workspace, "bob")
    assert await has(ports, "dan", question)
    assert not await has(ports, "ann", question), "dan has it"


async def test_a_giver_who_has_put_it_away_since_does_not_get_it_again(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Go?", recipients=["ann", "dan"])
    await desk.hand_over(question.id, ["bob"], by="ann")
    await _disabled(ports, workspace, "bob")
    await desk.set_aside(question.id, by="ann")
    await _disabled(ports, workspace, "bob")  # as SCIM does with every change of somebody disabled
    assert not await has(ports, "ann", question)
    kinds = [event.kind for event in await desk.history(question.id)]
    assert kinds.count(EventKind.PUT_BACK) == 1


async def test_what_was_handed_to_a_group_goes_back_with_the_last_of_it(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    await ports.directory.put_group(workspace, "ops", ["bob", "cid"])
    question = await desk.post("Go?", recipients=["ann"])
    await desk.hand_over(question.id, ["group:ops"], by="ann")
    await _disabled(ports, workspace, "cid")
    assert not await has(ports, "ann", question), "bob has it"
    await _removed(ports, workspace, "bob")
    assert await has(ports, "ann", question)


async def test_what_anybody_may_answer_is_not_read_when_somebody_leaves(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    await desk.post("Go?")
    mine = await desk.post("Go?", recipients=["bob"])
    bob = await ports.directory.find_person(workspace, "bob")
    assert bob is not None
    assert [each.id async for each in questions_by_name(ports.store, bob)] == [mine.id]


async def test_what_others_also_have_stays_with_them(ports: Backend, desk: LocalDesk, workspace: str) -> None:
    shared = await desk.post("Go?", recipients=["ann"])
    await desk.hand_over(shared.id, ["bob", "cid"], by="ann")
    aside = await desk.post("Go?", recipients=["ann", "bob"])
    await desk.set_aside(aside.id, by="ann")
    await _removed(ports, workspace, "bob")
    for question in (shared, aside):
        assert not await has(ports, "ann", question)
    await _removed(ports, workspace, "cid")
    assert await has(ports, "ann", shared)


async def test_what_somebody_had_snoozed_goes_back_too(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Go?", recipients=["ann", "dan"])
    await desk.hand_over(question.id, ["bob"], by="ann")
    await desk.set_aside(question.id, by="bob")
    await _removed(ports, workspace, "bob")
    assert await has(ports, "ann", question)


async def test_what_somebody_leaves_behind_is_found_before_they_go(
    ports: Backend, desk: LocalDesk, workspace: str
) -> None:
    for name, people in (("ops", ["ann", "bob"]), ("legal", ["bob"]), ("finance", ["ann", "bob", "cid"])):
        await ports.directory.put_group(workspace, name, people)
    alone = [
        await desk.post("Go?", recipients=["bob"]),
        await desk.post("Go?", recipients=["group:legal"]),
    ]
    two = await desk.post("Go?", recipients=["bob", "ann"], quorum=2)
    aside = await desk.post("Go?", recipients=["bob", "ann"])
    await desk.set_aside(aside.id, by="ann")
    alone += [two, aside]
    for recipients in (["bob", "ann"], ["group:ops"], []):
        await desk.post("Go?", recipients=recipients)
    handed = await desk.post("Go?", recipients=["ann"])
    await desk.hand_over(handed.id, ["bob"], by="ann")
    rules = [
        {"name": "pay", "then": {"require": {"people": ["group:ops"], "quorum": 2}}},
        {"name": "sign", "then": {"require": {"people": ["group:finance"], "quorum": 2}}},
        {"name": "moon", "then": {"require": {"people": ["group:ops"], "quorum": 7}}},
        {"name": "hire", "then": {"require": {"people": ["group:none"]}}},
    ]
    await ports.policies.put(workspace, {"rules": rules}, by="boss", expected=0)
    away = Away(starts=datetime.now(UTC), until=datetime.now(UTC) + timedelta(days=3), deputy="bob")
    await ports.directory.set_away(workspace, "ann", away)
    over = Away(starts=away.starts - timedelta(days=9), until=datetime.now(UTC), deputy="bob")
    await ports.directory.set_away(workspace, "cid", over)
    bob = await ports.directory.find_person(workspace, "bob")
    assert bob is not None
    found = await departure_of(ports, bob)
    assert set(found.questions) == {each.id for each in alone}
    assert [(each.rule, each.needed, each.there) for each in found.rules] == [("pay", 2, 1)]
    assert found.deputy_of == ("ann",)
    dan = await ports.directory.find_person(workspace, "dan")
    assert dan is not None
    assert (await departure_of(ports, dan)).is_empty
