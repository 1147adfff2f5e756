"""What an identity provider says: who somebody is, their groups and role, and that their session there has ended."""

from __future__ import annotations

import asyncio

from handraise.model.identities import Person, Role, Session
from handraise.model.provisioned import ProvisionedKind
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    DAY,
    HOUR,
    DirectoryFixtures,
    digest_of,
    some_person,
    some_session,
)
from handraise.testing.promises import promise


class ProviderCases(DirectoryFixtures):
    """Identities, provided rights, provider sessions, and the documents of SCIM."""

    async def test_a_person_is_found_by_the_identity_that_they_are_bound_to(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        assert await directory.find_person_by_identity(workspace, "account") is None
        await directory.bind_identity(workspace, "ana", "account")
        assert await directory.find_person_by_identity(workspace, "account") == ana
        assert await directory.find_person_by_identity(workspace, "another") is None
        assert await directory.find_person_by_identity(elsewhere, "account") is None
        await directory.remove_person(workspace, "ana")
        assert await directory.find_person_by_identity(workspace, "account") is None

    @promise("P11")
    async def test_a_group_lost_at_the_provider_is_lost_and_one_given_by_hand_stays(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        await some_person(directory, elsewhere, "ana")
        await directory.put_group(workspace, "by hand", ["ana", "bob"])
        await directory.put_group(workspace, "both", ["ana"])

        async def said(*groups: str) -> frozenset[str]:
            person = await directory.set_provided_rights(
                workspace, ana.id, groups=groups, is_admin=False, by="ana"
            )
            assert person is not None
            assert person == await directory.find_person(workspace, "ana")
            return person.groups

        assert await said("ops", "both") == {"by hand", "both", "ops"}
        await directory.put_group(
            workspace, "ops", ["ana", "bob"]
        )  # she is still in it because of the provider
        assert await said("leads", "both") == {"by hand", "both", "leads"}
        assert await said() == {"by hand", "both"}
        assert await directory.groups(workspace) == {
            "both": ["ana"],
            "by hand": ["ana", "bob"],
            "ops": ["bob"],
        }
        await said("ops")
        await directory.put_group(workspace, "ops", ["bob"])
        await directory.put_group(workspace, "ops", ["ana", "bob"])  # now she is in it by hand
        assert await said() == {"both", "by hand", "ops"}
        assert await directory.groups(elsewhere) == {}

    async def test_a_role_lost_at_the_provider_is_lost_and_one_given_by_hand_stays(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        async def said(*, is_admin: bool) -> Role:
            person = await directory.set_provided_rights(workspace, ana.id, groups=[], is_admin=is_admin)
            assert person is not None
            return person.role

        assert await said(is_admin=False) is Role.MEMBER
        assert await said(is_admin=True) is Role.ADMIN
        assert await said(is_admin=True) is Role.ADMIN
        renamed = await directory.put_person(workspace, "ana", name="A.", email=None, role=Role.ADMIN)
        assert renamed is not None
        assert await said(is_admin=False) is Role.MEMBER
        await directory.put_person(workspace, "ana", name="A.", email=None, role=Role.ADMIN)
        assert await said(is_admin=True) is Role.ADMIN
        assert await said(is_admin=False) is Role.ADMIN

    async def test_of_nobody_a_provider_says_nothing(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        for place, name in ((workspace, "bob"), (elsewhere, ana.id)):
            assert await directory.set_provided_rights(place, name, groups=["ops"], is_admin=True) is None
            assert await directory.groups(place) == {}

    @promise("P11")
    async def test_a_provider_ends_the_sessions_that_began_there(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        bob, twin = (
            await some_person(directory, workspace, "bob"),
            await some_person(directory, elsewhere, "ana"),
        )
        await directory.bind_identity(workspace, "ana", "account")
        await directory.bind_identity(workspace, "bob", "bob's account")
        await directory.bind_identity(elsewhere, "ana", "account")
        await some_session(directory, ana)  # by a link
        opened = [
            await _from_provider(directory, ana, "1", provider_session="one"),
            await _from_provider(directory, ana, "2", provider_session="two"),
            await _from_provider(directory, ana, "3"),
            await _from_provider(directory, bob, "4", provider_session="one of bob's"),
            await _from_provider(directory, twin, "5", provider_session="one"),
        ]

        async def left() -> set[str]:
            return {
                each.id
                for each in opened
                if await directory.find_session(each.workspace, digest_of(each.id)) is not None
            }

        async def ended(identity: str | None, session: str | None) -> int:
            return await directory.end_provider_sessions(
                workspace, identity=identity, provider_session=session, by="provider"
            )

        assert await ended("nobody", None) == 0
        assert await ended(None, "none") == 0
        assert await ended(None, None) == 0
        assert await ended(None, "one") == 1
        assert await left() == {"2", "3", "4", "5"}
        assert await ended("account", "three") == 1  # that of which the provider's session is not known
        assert await left() == {"2", "4", "5"}
        assert await ended("account", None) == 1
        assert await left() == {"4", "5"}
        assert await directory.find_session(workspace, digest_of("session of ana")) is not None

    async def test_a_document_is_stored_under_one_name_of_its_kind(
        self, directory: Directory, workspace: str, elsewhere: str, clock: ManualClock
    ) -> None:
        first = await directory.put_provisioned(
            workspace, "User", "ana", name="Ana@Example.org", document={"a": [1, None]}
        )
        assert first is not None
        assert (first.id, first.kind, first.document) == ("ana", "User", {"a": [1, None]})
        clock.advance(HOUR)
        taken = await directory.put_provisioned(workspace, "User", "bob", name="ANA@example.org", document={})
        assert taken is None
        group = await directory.put_provisioned(
            workspace, "Group", "ana", name="Ana@Example.org", document={}
        )
        assert group is not None
        again = await directory.put_provisioned(workspace, "User", "ana", name="ana@new.org", document={})
        assert again is not None
        assert (again.created_at, again.changed_at) == (first.created_at, first.created_at + HOUR)
        assert await directory.find_provisioned(workspace, "User", "ana") == again
        assert await directory.find_provisioned_by_name(workspace, "User", "ANA@new.org") == again
        assert await directory.find_provisioned_by_name(workspace, "User", "ana@example.org") is None
        bob = await directory.put_provisioned(workspace, "User", "bob", name="ana@example.org", document={})
        assert await directory.provisioned(workspace, "User") == [again, bob]
        assert await directory.provisioned(workspace, "Group") == [group]
        assert await directory.find_provisioned(elsewhere, "User", "bob") is None
        assert await directory.find_provisioned(workspace, "Group", "bob") is None
        assert await directory.remove_provisioned(workspace, "User", "bob") is True
        assert await directory.remove_provisioned(workspace, "User", "bob") is False
        assert await directory.provisioned(workspace, "User") == [again]

    async def test_a_document_is_removed_with_its_person(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        kinds: tuple[ProvisionedKind, ...] = ("User", "Group")
        for kind in kinds:
            await directory.put_provisioned(workspace, kind, ana.id, name="ana@example.org", document={})
        await directory.remove_person(workspace, "ana")
        assert await directory.find_provisioned(workspace, "User", "ana") is None
        assert await directory.find_provisioned_by_name(workspace, "User", "ana@example.org") is None
        assert await directory.find_provisioned(workspace, "Group", "ana") is not None

    async def test_of_many_who_want_a_name_at_once_one_gets_it(
        self, directory: Directory, workspace: str
    ) -> None:
        made = await asyncio.gather(
            *(
                directory.put_provisioned(workspace, "User", f"p{n}", name="ana@example.org", document={})
                for n in range(AT_ONCE)
            )
        )
        assert len([each for each in made if each is not None]) == 1


async def _from_provider(
    directory: Directory, person: Person, session_id: str, *, provider_session: str | None = None
) -> Session:
    session = await directory.open_session(
        person.workspace,
        session_id,
        digest=digest_of(session_id),
        person=person.id,
        how="oidc",
        lasts=DAY,
        provider_session=provider_session,
    )
    assert session is not None
    return session
