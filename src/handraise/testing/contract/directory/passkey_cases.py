"""Passkeys, and the nonces with which each of their signatures works once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from handraise.model.identities import Person
from handraise.model.passkey_signatures import Passkey
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    HOUR,
    INSTANT,
    DirectoryFixtures,
    some_person,
)


class PasskeyCases(DirectoryFixtures):
    """What a directory promises about passkeys."""

    async def test_passkeys_are_listed_the_oldest_first_for_their_person_only(
        self, directory: Directory, clock: ManualClock, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        await some_person(directory, elsewhere, "ana")
        first = await some_passkey(directory, workspace, "zz", vouched_by="boss")
        clock.advance(INSTANT)
        second = await some_passkey(directory, workspace, "aa")
        await some_passkey(directory, workspace, "bobs", person="bob")
        await some_passkey(directory, elsewhere, "aa")
        assert first == Passkey(
            workspace=workspace,
            id="zz",
            person=ana.id,
            name="Ana's phone",
            domain="handraise.example",
            public_key="cHVibGlj",
            sign_count=0,
            created_at=clock.now() - INSTANT,
            vouched_by="boss",
        )
        assert list(await directory.passkeys(workspace, "ana")) == [first, second]
        assert list(await directory.passkeys(workspace, "nobody")) == []

    async def test_a_passkey_is_registered_once_and_only_for_somebody_who_exists(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        assert await some_passkey(directory, workspace, "k", person=ana.id) is not None
        assert await some_passkey(directory, workspace, "k", person=ana.id) is None
        assert await some_passkey(directory, workspace, "k", person="bob") is None
        assert await some_passkey(directory, workspace, "k-2", person="nobody") is None
        assert [each.id for each in await directory.passkeys(workspace, "ana")] == ["k"]
        assert not await directory.passkeys(workspace, "bob")

    async def test_a_passkey_that_counts_must_count_up(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        added = await some_passkey(directory, workspace, "k")
        assert added is not None
        for count, accepted in (
            (0, True),
            (0, True),
            (5, True),
            (5, False),
            (4, False),
            (0, False),
            (6, True),
        ):
            used = await directory.use_passkey(workspace, "k", person=ana.id, sign_count=count)
            assert used is accepted, count
        clock.advance(INSTANT)
        assert await directory.use_passkey(workspace, "k", person=ana.id, sign_count=7)
        assert list(await directory.passkeys(workspace, "ana")) == [
            replace(added, sign_count=7, last_used_at=clock.now())
        ]

    async def test_nobody_uses_or_removes_the_passkey_of_somebody_else(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        await some_person(directory, elsewhere, "ana")
        await some_passkey(directory, workspace, "k", person=ana.id)
        for place, person, key in ((workspace, "bob", "k"), (elsewhere, "ana", "k"), (workspace, "ana", "x")):
            assert not await directory.use_passkey(place, key, person=person, sign_count=9)
            assert not await directory.remove_passkey(place, key, person=person, by="boss")
        assert [each.sign_count for each in await directory.passkeys(workspace, "ana")] == [0]

    async def test_a_passkey_is_removed_once_and_with_its_person(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_passkey(directory, workspace, "k-1")
        await some_passkey(directory, workspace, "k-2")
        assert await directory.remove_passkey(workspace, "k-1", person=ana.id, by="boss") is True
        assert await directory.remove_passkey(workspace, "k-1", person=ana.id, by="boss") is False
        assert not await directory.use_passkey(workspace, "k-1", person=ana.id, sign_count=0)
        assert await directory.add_nonce(workspace, "n", person=ana.id, lasts=HOUR)
        assert await directory.remove_person(workspace, ana.id)
        await some_person(directory, workspace, "ana")
        assert not await directory.passkeys(workspace, "ana")
        assert not await directory.use_nonce(workspace, "n", person=ana.id)

    async def test_a_nonce_works_once_for_its_person_until_it_ends(
        self, directory: Directory, clock: ManualClock, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        await some_person(directory, elsewhere, "ana")
        assert not await directory.add_nonce(workspace, "n-0", person="nobody", lasts=HOUR)
        for name in ("n-1", "n-2"):
            assert await directory.add_nonce(workspace, name, person=ana.id, lasts=HOUR)
        assert not await directory.use_nonce(workspace, "n-1", person="bob")
        assert not await directory.use_nonce(elsewhere, "n-1", person="ana")
        used = [directory.use_nonce(workspace, "n-1", person=ana.id) for _ in range(AT_ONCE)]
        assert sorted(await asyncio.gather(*used)) == [False] * (AT_ONCE - 1) + [True]
        clock.advance(HOUR)
        assert not await directory.use_nonce(workspace, "n-2", person=ana.id)
        assert await directory.add_nonce(workspace, "n-3", person=ana.id, lasts=HOUR)
        assert await directory.use_nonce(workspace, "n-3", person=ana.id)


async def some_passkey(
    directory: Directory, workspace: str, name: str, *, person: str = "ana", vouched_by: str | None = None
) -> Passkey | None:
    """Register a passkey with this id."""
    return await directory.add_passkey(
        workspace,
        name,
        person=person,
        name="Ana's phone",
        domain="handraise.example",
        public_key="cHVibGlj",
        sign_count=0,
        vouched_by=vouched_by,
    )
