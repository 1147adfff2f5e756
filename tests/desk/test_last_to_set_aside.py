"""Who may set a question aside for good: not the last one of a group, nor of everybody in the directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from handraise import Desk
from handraise.desk_factory import open_backend
from handraise.desks import desk_from_store
from handraise.errors import CannotShare
from handraise.model.identities import Role
from handraise.ports import Directory


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with (
        open_backend("memory:") as backend,
        desk_from_store(backend.store, backend.bus, directory=backend.directory) as desk,
    ):
        await _fill(backend.directory)
        yield desk


async def _fill(directory: Directory) -> None:
    for person in ("ana", "bo", "gone"):
        await directory.put_person("default", person, name=person, email=None, role=Role.MEMBER)
    await directory.put_group("default", "ops", ["bo", "gone"], by="test")
    await directory.disable_person("default", "gone", by="test")


@pytest.mark.parametrize(
    ("recipients", "away", "last"),
    [(["group:ops"], [], "bo"), (["ana", "group:ops"], ["ana"], "bo"), ([], ["bo"], "ana")],
)
async def test_the_last_one_who_is_there_is_refused(
    desk: Desk, recipients: Sequence[str], away: Sequence[str], last: str
) -> None:
    question = await desk.post("Which one?", recipients=recipients)
    for person in away:
        await desk.set_aside(question.id, by=person)
    with pytest.raises(CannotShare, match="nobody else has this in their inbox"):
        await desk.set_aside(question.id, by=last)
    assert [each.person for each in (await desk.get(question.id)).aside] == list(away)


async def test_it_is_not_handed_over_to_a_group_of_which_nobody_has_it(desk: Desk) -> None:
    question = await desk.post("Which one?", recipients=["ana"])
    await desk.hand_over(question.id, ["bo"], by="ana")
    with pytest.raises(CannotShare, match="nobody else has this in their inbox"):
        await desk.hand_over(question.id, ["group:ops"], by="bo")
    assert [each.person for each in (await desk.get(question.id)).aside] == ["ana"]
