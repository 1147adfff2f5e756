"""A question to a name that nobody has is refused where people are known, and waits for nobody for ever."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from handraise import Escalation, InvalidQuestion, KeyConflict, Timeline
from handraise.backends.sqlite.memory import open_memory
from handraise.desk import recipient_check
from handraise.desk.local_desk import LocalDesk
from handraise.desk.recipient_check import Recipients
from handraise.desks import desk_from_store
from handraise.model.away import Away
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.ports import Backend, Directory

HERE = "default"


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with open_memory() as backend:
        yield backend


@pytest.fixture
async def desk(backend: Backend) -> AsyncIterator[LocalDesk]:
    async with desk_from_store(backend.store, backend.bus, directory=backend.directory) as desk:
        yield desk


@pytest.fixture
async def people(backend: Backend) -> Directory:
    directory = backend.directory
    for name in ("ana", "bob", "nobody"):
        put = await directory.put_person(
            HERE, name, name=name.title(), email=f"{name}@example.org", role=Role.MEMBER
        )
        assert put
    await directory.put_group(HERE, "leads", ["ana"])
    return directory


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nobdy", "'nobdy': nobody here has this name; did you mean 'nobody'?"),
        ("group:leeds", "'group:leeds': there is no such group here; did you mean 'group:leads'?"),
        ("leads", "'leads': nobody here has this name; did you mean 'group:leads'?"),
        ("Ana", "'Ana': nobody here has this name; did you mean 'ana'?"),
        ("BOB@example.org", "'BOB@example.org': nobody here has this name; did you mean 'bob'?"),
        ("xyz", "'xyz': nobody here has this name; add them first, with: handraise people add"),
        ("group:xyz", "'group:xyz': there is no such group here; add them first, with: handraise groups set"),
    ],
)
async def test_a_name_that_nobody_has_is_refused_with_the_nearest(
    desk: LocalDesk, name: str, told: str
) -> None:
    with pytest.raises(InvalidQuestion) as refused:
        await desk.post("Ship it?", recipients=["ana", name])
    assert [(each.path, each.message) for each in refused.value.problems] == [("recipients[1]", told)]
    later = Timeline(escalate=[Escalation(after=60, to=[name])])
    with pytest.raises(InvalidQuestion) as refused:
        await desk.post("Ship it?", recipients=["ana"], timeline=later)
    assert [(each.path, each.message) for each in refused.value.problems] == [("timeline.escalate", told)]
    assert not (await desk.list_pending()).items


@pytest.mark.usefixtures("people")
async def test_people_groups_and_whoever_has_an_address_can_be_asked(
    backend: Backend, desk: LocalDesk
) -> None:
    room = Address(workspace=HERE, recipient="ops-room", channel="webhook", id="1", to={})
    await backend.outbox.put_address(room)
    asked = await desk.post("Ship it?", recipients=["ana", "group:leads", "ops-room"])
    assert asked.recipients == ("ana", "group:leads", "ops-room")
    assert (await desk.post("Ship it?")).recipients == ()


@pytest.mark.usefixtures("people")
async def test_a_program_that_knows_its_people_itself_can_say_so(desk: LocalDesk) -> None:
    asked = await desk.post("Ship it?", recipients=["chat-user-7"], check_recipients=False)
    assert asked.recipients == ("chat-user-7",)


async def test_without_people_it_is_said_once_that_nobody_can_tell(
    desk: LocalDesk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipient_check, "_GOOD_FOR", -1.0)
    caplog.set_level(logging.INFO, "handraise")
    for _ in range(3):
        await desk.post("Ship it?", recipients=["nobdy"])
    said = [record.getMessage() for record in caplog.records]
    assert said == ["no people are known in default, so 'nobdy' cannot be checked"]


async def test_the_same_key_gives_the_same_question_after_its_recipient_has_left(
    desk: LocalDesk, people: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipient_check, "_GOOD_FOR", -1.0)
    first = await desk.post("Ship it?", recipients=["bob"], key="ship")
    await people.remove_person(HERE, "bob")
    assert (await desk.post("Ship it?", recipients=["bob"], key="ship")).id == first.id
    again = desk.scoped(new_id=lambda: first.id)
    assert (await again.post("Ship it?", recipients=["bob"], key="ship")).id == first.id
    with pytest.raises(KeyConflict):
        await desk.post("Ship what?", recipients=["bob"], key="ship")
    with pytest.raises(InvalidQuestion, match="nobody here has this name"):
        await desk.post("Ship it?", recipients=["bob"], key="another")


async def test_names_that_were_found_are_not_looked_for_again(
    desk: LocalDesk, people: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[set[str]] = []
    real = people.known_recipients

    async def counted(workspace: str, names: set[str]) -> frozenset[str] | None:
        looks.append(set(names))
        return await real(workspace, names)

    monkeypatch.setattr(people, "known_recipients", counted)
    for _ in range(5):
        await desk.post("Ship it?", recipients=["ana", "bob"])
    await desk.post("Ship it?", recipients=["ana", "group:leads"])
    await desk.post("Ship it?")
    assert looks == [{"ana", "bob"}, {"group:leads"}]


async def test_the_deputy_of_somebody_who_is_away_is_found_and_kept_for_a_while(
    desk: LocalDesk, people: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    await people.set_away(HERE, "ana", Away(starts=now, until=now + timedelta(days=1), deputy="bob"))
    looks: list[str] = []
    real = people.away

    async def counted(workspace: str) -> Mapping[str, Away]:
        looks.append(workspace)
        return await real(workspace)

    monkeypatch.setattr(people, "away", counted)
    known = Recipients(people)
    found = [await known.deputies_of(desk._draft("Go?", {"recipients": ["ana"]})) for _ in range(5)]  # noqa: SLF001 -- as posting does
    assert found == [("bob",)] * 5
    assert looks == [HERE]
    assert await desk._deputies(desk._draft("Go?", {"recipients": ["ana"]})) == ("bob",)  # noqa: SLF001 -- as posting does
    await known.close()


async def test_nobody_is_asked_instead_if_the_question_is_answered_already(
    backend: Backend, people: Directory
) -> None:
    now = datetime.now(UTC)
    store, policies = backend.store, backend.policies
    async with desk_from_store(store, backend.bus, directory=people, policies=policies) as desk:
        first = await desk.post("Go?", recipients=["ana"], topic="go")
        await desk.answer(first.id, "yes", by="ana")
        await desk.keep_answer(first.id, until=now + timedelta(days=1), by="ana", spot_check=0.0)
    await people.set_away(HERE, "ana", Away(starts=now, until=now + timedelta(days=1), deputy="bob"))
    async with desk_from_store(store, backend.bus, directory=people, policies=policies) as desk:
        second = await desk.post("Go?", recipients=["ana"], topic="go")
        assert (second.status, second.added) == ("answered", ())


async def test_the_deputy_of_somebody_who_is_away_is_asked_and_may_answer(
    desk: LocalDesk, people: Directory
) -> None:
    now = datetime.now(UTC)
    await people.set_away(HERE, "ana", Away(starts=now, until=now + timedelta(days=1), deputy="bob"))
    question = await desk.post("Go?", recipients=["ana"], key="go")
    assert (question.recipients, question.added, question.audience) == (("ana",), ("bob",), ("ana", "bob"))
    assert await desk.get(question.id) == question
    assert [each.id for each in await desk.list_pending(recipient="bob")] == [question.id]
    (asked,) = await desk.history(question.id)
    assert asked.data == {"to": ["bob"]}
    await people.set_away(HERE, "ana", None)
    assert (await desk.post("Go?", recipients=["ana"], key="go")).id == question.id
    assert (await desk.answer(question.id, "yes", by="bob")).status == "answered"


async def test_nobody_is_looked_for_if_only_groups_are_asked(
    desk: LocalDesk, people: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unwanted(workspace: str) -> Mapping[str, Away]:
        raise AssertionError(workspace)

    monkeypatch.setattr(people, "away", unwanted)
    known = Recipients(people)
    for recipients in ([], ["group:leads"]):
        assert await known.deputies_of(desk._draft("Go?", {"recipients": recipients})) == ()  # noqa: SLF001 -- as posting does
    await known.close()
