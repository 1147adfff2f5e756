"""People and groups: who exists, who was removed, and what is removed with them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from handraise.model.identities import Person, Role
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    HOUR,
    DirectoryFixtures,
    digest_of,
    some_link,
    some_person,
    some_session,
)
from handraise.testing.promises import promise


class PeopleCases(DirectoryFixtures):
    """What a directory promises about people and groups."""

    async def test_a_person_is_found_by_name_and_by_e_mail(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        put = await directory.put_person(
            workspace, "ana", name="Ana Ünal", email="Ana@Example.org", role=Role.ADMIN
        )
        assert put == Person(
            workspace=workspace,
            id="ana",
            name="Ana Ünal",
            created_at=clock.now(),
            email="Ana@Example.org",
            role=Role.ADMIN,
        )
        assert await directory.find_person(workspace, "ana") == put
        assert await directory.find_person_by_email(workspace, "Ana@Example.org") == put
        assert await directory.find_person(workspace, "bob") is None
        assert await directory.find_person_by_email(workspace, "bob@example.org") is None

    async def test_how_a_person_wants_to_read_is_kept(self, directory: Directory, workspace: str) -> None:
        await some_person(directory, workspace, "ana")
        await some_person(directory, workspace, "bob")
        chosen = await directory.set_preferences(workspace, "ana", language="de", time_zone="Europe/Berlin")
        assert chosen is not None
        assert (chosen.language, chosen.time_zone) == ("de", "Europe/Berlin")
        await directory.put_person(workspace, "ana", name="Ana", email=None, role=Role.MEMBER)
        kept = await directory.find_person(workspace, "ana")
        assert kept is not None
        assert (kept.language, kept.time_zone) == ("de", "Europe/Berlin")
        other = await directory.find_person(workspace, "bob")
        assert other is not None
        assert (other.language, other.time_zone) == (None, None)
        again = await directory.set_preferences(workspace, "ana", language=None, time_zone=None)
        assert again is not None
        assert (again.language, again.time_zone) == (None, None)
        assert await directory.set_preferences(workspace, "eve", language="de", time_zone=None) is None
        assert await directory.find_person(workspace, "eve") is None

    async def test_a_person_is_bound_to_the_first_identity_that_comes(
        self, directory: Directory, workspace: str
    ) -> None:
        await some_person(directory, workspace, "ana")
        bound = await asyncio.gather(
            *(directory.bind_identity(workspace, "ana", f"account-{number}") for number in range(4))
        )
        assert sum(bound) == 1
        theirs = f"account-{bound.index(True)}"
        await directory.put_person(workspace, "ana", name="Ana", email="new@example.org", role=Role.MEMBER)
        assert await directory.bind_identity(workspace, "ana", theirs)
        assert not await directory.bind_identity(workspace, "ana", "another")
        assert not await directory.bind_identity(workspace, "nobody", theirs)
        await directory.remove_person(workspace, "ana")
        await some_person(directory, workspace, "ana")
        assert await directory.bind_identity(workspace, "ana", "another")

    async def test_who_chose_the_e_mail_counts_until_an_identity_is_bound(
        self, directory: Directory, workspace: str
    ) -> None:
        async def chosen_by(by: str | None, email: str | None, *, name: str = "Ana") -> str | None:
            put = await directory.put_person(
                workspace, "ana", name=name, email=email, role=Role.MEMBER, by=by
            )
            assert put is not None
            assert put == await directory.find_person(workspace, "ana")
            return put.email_by

        assert await chosen_by("boss", "ana@example.org") == "boss"
        assert await chosen_by("ann", "Ana@Example.org", name="Ana Lee") == "boss"
        assert await chosen_by("ann", "ana@example.com") == "ann"
        assert await chosen_by(None, None) is None
        assert await chosen_by("boss", "ana@example.net") == "boss"
        assert await directory.bind_identity(workspace, "ana", "account")
        assert await chosen_by("ann", "ana@example.org") == "boss"
        await directory.remove_person(workspace, "ana")
        assert await chosen_by("ann", "ana@example.org") == "ann"

    async def test_e_mails_that_only_fold_alike_are_two(self, directory: Directory, workspace: str) -> None:
        await some_person(directory, workspace, "ana", email="ana@weiss.example")
        for other in ("ana@weiß.example", "ana@wei\u017f\u017f.example"):
            assert await directory.find_person_by_email(workspace, other) is None

    @pytest.mark.parametrize(
        ("kept", "asked"),
        [("Ana@Example.org", "aNA@example.ORG"), ("zoë@example.org", "ZOë@Example.org")],
    )
    async def test_an_e_mail_is_compared_without_regard_to_case_and_kept_as_written(
        self, directory: Directory, workspace: str, kept: str, asked: str
    ) -> None:
        put = await some_person(directory, workspace, "ana", email=kept)
        assert await directory.find_person_by_email(workspace, asked) == put
        assert put.email == kept
        taken = await directory.put_person(workspace, "bob", name="Bob", email=asked, role=Role.MEMBER)
        assert taken is None

    async def test_an_e_mail_that_is_taken_leaves_everything_as_it_was(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        bob = await some_person(directory, workspace, "bob")
        for person_id in ("bob", "cy"):
            assert (
                await directory.put_person(
                    workspace, person_id, name="Other", email=ana.email, role=Role.ADMIN
                )
                is None
            )
        assert await directory.people(workspace, after=None, limit=10) == [ana, bob]

    async def test_of_many_who_take_an_e_mail_at_once_one_gets_it(
        self, directory: Directory, workspace: str
    ) -> None:
        put = await asyncio.gather(
            *(
                directory.put_person(
                    workspace, f"p-{n}", name="Ana", email="ana@example.org", role=Role.MEMBER
                )
                for n in range(AT_ONCE)
            )
        )
        people = await directory.people(workspace, after=None, limit=AT_ONCE)
        assert [person for person in put if person] == people
        assert len(people) == 1

    async def test_an_e_mail_given_up_is_free_for_others(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.put_person(workspace, "ana", name="Ana", email="ana@example.com", role=Role.MEMBER)
        assert await directory.put_person(workspace, "bob", name="Bob", email=ana.email, role=Role.MEMBER)

    async def test_many_people_may_have_no_e_mail(self, directory: Directory, workspace: str) -> None:
        for each in ("ana", "bob"):
            person = await directory.put_person(workspace, each, name=each, email=None, role=Role.MEMBER)
            assert person is not None
            assert person.email is None

    async def test_changing_a_person_keeps_their_groups_and_beginning(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await directory.put_group(workspace, "ops", ["ana"])
        clock.advance(HOUR)
        changed = await directory.put_person(workspace, "ana", name="Ana B.", email=None, role=Role.ADMIN)
        assert changed == Person(
            workspace=workspace,
            id="ana",
            name="Ana B.",
            created_at=ana.created_at,
            role=Role.ADMIN,
            groups=frozenset({"ops"}),
        )
        assert await directory.find_person(workspace, "ana") == changed

    async def test_putting_a_person_as_they_are_changes_nothing(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        assert await some_person(directory, workspace, "ana") == ana

    async def test_people_come_in_pages_in_the_order_of_their_ids(
        self, directory: Directory, workspace: str
    ) -> None:
        for each in ("dan", "Bob", "ana", "élise", "cy"):
            await some_person(directory, workspace, each)
        await directory.put_group(workspace, "ops", ["cy", "Bob"])
        first = await directory.people(workspace, after=None, limit=3)
        second = await directory.people(workspace, after=first[-1].id, limit=3)
        assert [(person.id, set(person.groups)) for person in (*first, *second)] == [
            ("Bob", {"ops"}),
            ("ana", set()),
            ("cy", {"ops"}),
            ("dan", set()),
            ("élise", set()),
        ]
        assert len(first) == 3

    async def test_a_group_is_replaced_as_a_whole(self, directory: Directory, workspace: str) -> None:
        for each in ("ana", "bob", "cy"):
            await some_person(directory, workspace, each)
        assert await directory.put_group(workspace, "ops", ["bob", "ana"]) == ["ana", "bob"]
        assert await directory.put_group(workspace, "leads", ["ana"]) == ["ana"]
        assert await directory.put_group(workspace, "ops", ["cy", "bob", "cy"]) == ["bob", "cy"]
        groups = await directory.groups(workspace)
        assert list(groups.items()) == [("leads", ["ana"]), ("ops", ["bob", "cy"])]
        ana = await directory.find_person(workspace, "ana")
        assert ana is not None
        assert ana.groups == {"leads"}

    async def test_a_group_stays_where_a_check_of_who_is_in_it_refuses(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        bob = await some_person(directory, workspace, "bob")
        seen: list[list[str]] = []

        def check(before: Sequence[str]) -> None:
            seen.append(list(before))
            if before:
                raise LookupError("changed")

        await directory.put_group(workspace, "ops", [bob.id, ana.id], check=check)
        with pytest.raises(LookupError):
            await directory.put_group(workspace, "ops", [], check=check)
        assert await directory.groups(workspace) == {"ops": ["ana", "bob"]}
        assert seen == [[], ["ana", "bob"]]

    async def test_only_people_who_exist_are_in_a_group(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        assert await directory.put_group(workspace, "ops", ["nobody", ana.id]) == ["ana"]
        assert await directory.groups(workspace) == {"ops": ["ana"]}
        assert await directory.put_group(workspace, "ghosts", ["nobody"]) == []
        await some_person(directory, workspace, "nobody")
        assert await directory.groups(workspace) == {"ops": ["ana"]}

    async def test_a_group_without_people_is_gone(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.put_group(workspace, "ops", [ana.id])
        assert await directory.put_group(workspace, "ops", []) == []
        assert await directory.groups(workspace) == {}
        assert await directory.find_person(workspace, "ana") == ana

    async def test_recipients_are_known_as_people_and_as_groups_that_have_some(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        asked = ["ana", "bob", "group:ops", "group:ghosts", "ops", "group:ana", "Group:ops", "%", "*"]
        assert await directory.known_recipients(workspace, asked) is None
        await some_person(directory, elsewhere, "bob")
        assert await directory.known_recipients(workspace, asked) is None
        await some_person(directory, workspace, "ana")
        assert await directory.known_recipients(workspace, asked) == frozenset({"ana"})
        await directory.put_group(workspace, "ops", ["ana"])
        assert await directory.known_recipients(workspace, asked) == frozenset({"ana", "group:ops"})
        assert await directory.known_recipients(workspace, []) == frozenset()
        await directory.remove_person(workspace, "ana")
        assert await directory.known_recipients(workspace, asked) is None

    async def test_of_two_who_replace_a_group_at_once_one_has_the_last_word(
        self, directory: Directory, workspace: str
    ) -> None:
        for each in ("ana", "bob", "cy", "dan"):
            await some_person(directory, workspace, each)
        wholes = [["ana", "bob"], ["cy", "dan"]]
        await asyncio.gather(*(directory.put_group(workspace, "ops", wholes[n % 2]) for n in range(AT_ONCE)))
        assert (await directory.groups(workspace))["ops"] in wholes

    async def test_removing_a_person_ends_their_sessions_links_and_memberships(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        bob = await some_person(directory, workspace, "bob")
        await directory.put_group(workspace, "ops", ["ana", "bob"])
        for person in (ana, bob):
            await some_session(directory, person)
            await some_link(directory, person)
        assert await directory.remove_person(workspace, "ana") is True
        assert await directory.find_person(workspace, "ana") is None
        assert await directory.find_session(workspace, digest_of("session of ana")) is None
        assert await directory.use_link(workspace, digest_of("link of ana")) is None
        assert await directory.groups(workspace) == {"ops": ["bob"]}
        assert await directory.find_session(workspace, digest_of("session of bob"))
        assert await directory.find_link(workspace, digest_of("link of bob"))

    async def test_somebody_who_comes_back_gets_nothing_of_what_they_had(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.put_group(workspace, "ops", ["ana"])
        await some_session(directory, ana)
        await some_link(directory, ana)
        await directory.remove_person(workspace, "ana")
        assert await some_person(directory, workspace, "ana") == ana
        assert await directory.find_session(workspace, digest_of("session of ana")) is None
        assert await directory.find_link(workspace, digest_of("link of ana")) is None
        assert await directory.groups(workspace) == {}

    async def test_removing_nobody_is_said(self, directory: Directory, workspace: str, ana: Person) -> None:
        assert await directory.remove_person(workspace, "bob") is False
        assert await directory.remove_person(workspace, ana.id) is True
        assert await directory.remove_person(workspace, ana.id) is False

    async def test_whoever_is_removed_while_being_let_in_stays_out(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        digests = [digest_of(f"secret {n}") for n in range(AT_ONCE)]
        entering = [
            *(
                directory.open_session(
                    workspace, f"s-{n}", digest=digest, person="ana", how="link", lasts=HOUR
                )
                for n, digest in enumerate(digests)
            ),
            *(
                directory.add_link(
                    workspace, f"l-{n}", digest=digest, person="ana", purpose="sign-in", lasts=HOUR
                )
                for n, digest in enumerate(digests)
            ),
            *(directory.put_group(workspace, f"group {n}", ["ana"]) for n in range(5)),
        ]
        await asyncio.gather(*entering[::2], directory.remove_person(workspace, "ana"), *entering[1::2])
        assert await directory.groups(workspace) == {}
        assert await some_person(directory, workspace, "ana") == ana
        for digest in digests:
            assert await directory.find_session(workspace, digest) is None
            assert await directory.find_link(workspace, digest) is None

    @promise("P8")
    async def test_no_person_and_no_group_crosses_a_workspace(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        assert ana.email is not None
        await directory.put_group(workspace, "ops", ["ana"])
        assert await directory.find_person(elsewhere, "ana") is None
        assert await directory.find_person_by_email(elsewhere, ana.email) is None
        assert await directory.people(elsewhere, after=None, limit=10) == []
        assert await directory.remove_person(elsewhere, "ana") is False
        assert await directory.groups(elsewhere) == {}
        assert await directory.put_group(elsewhere, "ops", ["ana"]) == []
        twin = await some_person(directory, elsewhere, "ana", email=ana.email)
        assert (twin.workspace, twin.groups) == (elsewhere, frozenset())
        await directory.remove_person(elsewhere, "ana")
        await some_person(directory, elsewhere, "zoe", email=ana.email)
        await directory.put_group(elsewhere, "ops", [])
        assert await directory.find_person_by_email(workspace, ana.email) == await directory.find_person(
            workspace, "ana"
        )
        assert await directory.groups(workspace) == {"ops": ["ana"]}
