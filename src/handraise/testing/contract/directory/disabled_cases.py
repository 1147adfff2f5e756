"""People who are disabled: they keep what they did, and can do nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from handraise.model.away import Away
from handraise.model.identities import Person, Role
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    DAY,
    HOUR,
    DirectoryFixtures,
    digest_of,
    some_link,
    some_person,
    some_question_link,
    some_session,
)
from handraise.testing.promises import promise


class DisabledCases(DirectoryFixtures):
    """Disabling and enabling people."""

    @promise("P11")
    async def test_disabling_a_person_ends_their_sessions_and_links_and_nobody_elses(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        others = [
            await some_person(directory, workspace, "bob"),
            await some_person(directory, elsewhere, "ana"),
        ]
        for person in (ana, *others):
            await some_session(directory, person)
            await some_link(directory, person)
            await some_question_link(directory, person)
        disabled = await directory.disable_person(workspace, "ana", by="boss")
        assert disabled is not None
        assert disabled.disabled_at is not None
        assert await directory.find_person(workspace, "ana") == disabled
        assert await directory.sessions(workspace, "ana", limit=10) == []
        for found in (
            await directory.find_session(workspace, digest_of("session of ana")),
            await directory.find_link(workspace, digest_of("link of ana")),
            await directory.use_link(workspace, digest_of("link of ana")),
            await directory.find_question_link(workspace, digest_of("q for ana")),
        ):
            assert found is None
        for person in others:
            assert await directory.find_session(person.workspace, digest_of(f"session of {person.id}"))
            assert await directory.find_link(person.workspace, digest_of(f"link of {person.id}"))
            assert await directory.find_question_link(person.workspace, digest_of(f"q for {person.id}"))

    @promise("P11")
    async def test_nobody_who_is_disabled_is_let_in(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.disable_person(workspace, "ana")
        for made in (
            await some_session(directory, ana),
            await some_link(directory, ana),
            await some_question_link(directory, ana),
        ):
            assert made is None
        assert await directory.sessions(workspace, "ana", limit=10) == []
        await directory.enable_person(workspace, "ana")
        for made in (
            await some_session(directory, ana),
            await some_link(directory, ana),
            await some_question_link(directory, ana),
        ):
            assert made is not None

    async def test_who_is_enabled_again_has_the_groups_and_the_role_from_before(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.put_group(workspace, "ops", ["ana"])
        await directory.put_person(workspace, "ana", name="Ana", email=ana.email, role=Role.ADMIN)
        disabled = await directory.disable_person(workspace, "ana")
        assert disabled is not None
        assert (disabled.groups, disabled.role, disabled.is_admin) == (frozenset({"ops"}), Role.ADMIN, False)
        assert await directory.disabled_people(workspace) == {"ana"}
        changed = await directory.put_person(workspace, "ana", name="Ana B.", email=None, role=Role.ADMIN)
        assert changed is not None
        assert (changed.name, changed.disabled_at) == ("Ana B.", disabled.disabled_at)
        enabled = await directory.enable_person(workspace, "ana")
        assert enabled is not None
        assert (enabled.groups, enabled.is_admin, enabled.disabled_at) == (frozenset({"ops"}), True, None)
        assert await directory.disabled_people(workspace) == frozenset()

    async def test_a_second_time_changes_nothing_and_nobody_is_said(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person, clock: ManualClock
    ) -> None:
        assert await directory.enable_person(workspace, "ana") == ana
        disabled = await directory.disable_person(workspace, "ana")
        clock.advance(HOUR)
        assert await directory.disable_person(workspace, "ana") == disabled
        for place, name in ((workspace, "bob"), (elsewhere, "ana")):
            assert await directory.disable_person(place, name) is None
            assert await directory.enable_person(place, name) is None
        assert await directory.find_person(workspace, "ana") == disabled

    async def test_somebody_who_is_disabled_is_no_recipient_and_no_deputy(
        self, directory: Directory, workspace: str, ana: Person, clock: ManualClock
    ) -> None:
        await some_person(directory, workspace, "bob")
        now = clock.now()
        away = Away(starts=now - HOUR, until=now + timedelta(days=2), deputy="bob")
        await directory.set_away(workspace, ana.id, away)
        await directory.disable_person(workspace, "bob")
        assert await directory.known_recipients(workspace, ["ana", "bob"]) == frozenset({"ana"})
        assert (await directory.away(workspace))["ana"].deputy is None
        await directory.enable_person(workspace, "bob")
        assert await directory.known_recipients(workspace, ["ana", "bob"]) == frozenset({"ana", "bob"})
        assert (await directory.away(workspace))["ana"].deputy == "bob"

    async def test_whoever_is_disabled_while_being_let_in_stays_out(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        digests = [digest_of(f"secret {n}") for n in range(AT_ONCE)]
        entering = [
            *(
                directory.open_session(workspace, f"s-{n}", digest=each, person="ana", how="link", lasts=DAY)
                for n, each in enumerate(digests)
            ),
            *(
                directory.add_link(
                    workspace, f"l-{n}", digest=each, person="ana", purpose="sign-in", lasts=DAY
                )
                for n, each in enumerate(digests)
            ),
        ]
        await asyncio.gather(*entering[::2], directory.disable_person(workspace, ana.id), *entering[1::2])
        for each in digests:
            assert await directory.find_session(workspace, each) is None
            assert await directory.find_link(workspace, each) is None
