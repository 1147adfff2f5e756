"""Question links: one person, one question, until they end."""

from __future__ import annotations

import asyncio

from handraise.model.identities import Person, QuestionLink, Role
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    HOUR,
    INSTANT,
    DirectoryFixtures,
    digest_of,
    some_link,
    some_person,
    some_question_link,
    some_session,
)
from handraise.testing.promises import promise


class QuestionLinkCases(DirectoryFixtures):
    """What a directory promises about links to one question."""

    async def test_a_question_link_names_its_question_and_its_person(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        added = await directory.add_question_link(
            workspace,
            "l-1",
            digest=digest_of("l-1"),
            question_id="q-1",
            person="ana",
            channel="email",
            created_by="root",
            lasts=HOUR,
        )
        assert added == QuestionLink(
            workspace=workspace,
            id="l-1",
            question_id="q-1",
            person="ana",
            channel="email",
            created_at=clock.now(),
            created_by="root",
            expires_at=clock.now() + HOUR,
        )
        bob = await some_person(directory, workspace, "bob")
        others = await some_question_link(directory, bob, question_id="q-1")
        assert await directory.find_question_link(workspace, digest_of("l-1")) == (added, ana)
        assert await directory.find_question_link(workspace, digest_of("q-1 for bob")) == (others, bob)
        assert await directory.find_question_link(workspace, digest_of("l-2")) is None

    async def test_a_question_link_is_not_used_up(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        link = await some_question_link(directory, ana)
        for _ in range(3):
            assert await directory.find_question_link(workspace, digest_of("q for ana")) == (link, ana)

    async def test_a_question_link_shows_its_person_as_they_are_now(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_question_link(directory, ana)
        for groups in ({"ops", "leads"}, {"leads"}):
            for group in ("ops", "leads"):
                await directory.put_group(workspace, group, [ana.id] if group in groups else [])
            now = await directory.put_person(workspace, "ana", name="Ana B.", email=None, role=Role.ADMIN)
            found = await directory.find_question_link(workspace, digest_of("q for ana"))
            assert found is not None
            assert found[1] == now
            assert found[1].groups == groups

    async def test_a_question_link_ends_by_the_clock(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_question_link(directory, ana, lasts=HOUR)
        clock.advance(HOUR - INSTANT)
        assert await directory.find_question_link(workspace, digest_of("q for ana"))
        clock.advance(INSTANT)
        assert await directory.find_question_link(workspace, digest_of("q for ana")) is None

    async def test_nobody_gets_a_question_link_who_is_not_there(
        self, directory: Directory, workspace: str
    ) -> None:
        nobody = Person(workspace=workspace, id="nobody", name="Nobody", created_at=ManualClock().now())
        assert await some_question_link(directory, nobody) is None
        await some_person(directory, workspace, "nobody")
        assert await directory.find_question_link(workspace, digest_of("q for nobody")) is None

    async def test_the_links_to_a_question_are_ended_for_one_or_for_everybody(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        people = [ana, *[await some_person(directory, workspace, each) for each in ("bob", "cy")]]
        for person in people:
            for question in ("q-1", "q-2"):
                await some_question_link(directory, person, question_id=question)
        assert await directory.end_question_links(workspace, "q-1", person="bob") == 1
        assert await directory.end_question_links(workspace, "q-1", person="bob") == 0
        assert await left(directory, workspace) == ["q-1 for ana", "q-1 for cy", *ALL[3:]]
        assert await directory.end_question_links(workspace, "q-1", person=None) == 2
        assert await directory.end_question_links(workspace, "q-3", person=None) == 0
        assert await left(directory, workspace) == ALL[3:]

    async def test_removing_a_person_ends_their_question_links_for_good(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        bob = await some_person(directory, workspace, "bob")
        for person in (ana, bob):
            await some_question_link(directory, person)
        await directory.remove_person(workspace, "ana")
        assert await directory.find_question_link(workspace, digest_of("q for ana")) is None
        assert await some_person(directory, workspace, "ana") == ana
        assert await directory.find_question_link(workspace, digest_of("q for ana")) is None
        assert await directory.find_question_link(workspace, digest_of("q for bob"))

    async def test_whoever_is_removed_while_getting_question_links_has_none(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        adding = [some_question_link(directory, ana, question_id=f"q-{n}") for n in range(AT_ONCE)]
        await asyncio.gather(*adding[::2], directory.remove_person(workspace, "ana"), *adding[1::2])
        await some_person(directory, workspace, "ana")
        for n in range(AT_ONCE):
            assert await directory.find_question_link(workspace, digest_of(f"q-{n} for ana")) is None

    async def test_no_kind_of_link_is_another_and_none_is_a_session(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_question_link(directory, ana)
        await some_link(directory, ana)
        await some_session(directory, ana)
        asked = digest_of("q for ana")
        assert await directory.find_session(workspace, asked) is None
        assert await directory.find_link(workspace, asked) is None
        assert await directory.use_link(workspace, asked) is None
        assert await directory.find_key(workspace, asked) is None
        for other in ("link of ana", "session of ana"):
            assert await directory.find_question_link(workspace, digest_of(other)) is None

    async def test_signing_in_leaves_question_links_alone(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        link = await some_question_link(directory, ana)
        await some_link(directory, ana)
        assert await directory.use_link(workspace, digest_of("link of ana"))
        assert await directory.find_question_link(workspace, digest_of("q for ana")) == (link, ana)

    @promise("P8")
    async def test_no_question_link_crosses_a_workspace(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        link = await some_question_link(directory, ana)
        twin = await some_person(directory, elsewhere, "ana")
        assert await directory.find_question_link(elsewhere, digest_of("q for ana")) is None
        assert await directory.end_question_links(elsewhere, "q", person=None) == 0
        others = await some_question_link(directory, twin)
        assert others is not None
        assert others.workspace == elsewhere
        await directory.end_question_links(elsewhere, "q", person="ana")
        await directory.remove_person(elsewhere, "ana")
        assert await directory.find_question_link(workspace, digest_of("q for ana")) == (link, ana)
        stranger = await some_person(directory, elsewhere, "stranger")
        lent = Person(workspace=workspace, id=stranger.id, name="", created_at=stranger.created_at)
        assert await some_question_link(directory, lent) is None


ALL = [f"{question} for {person}" for question in ("q-1", "q-2") for person in ("ana", "bob", "cy")]


async def left(directory: Directory, workspace: str) -> list[str]:
    """The links that still exist."""
    return [each for each in ALL if await directory.find_question_link(workspace, digest_of(each))]
