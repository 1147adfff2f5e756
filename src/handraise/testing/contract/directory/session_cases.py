"""Sessions and sign-in links: a link works once, a session until it ends."""

from __future__ import annotations

import asyncio
from typing import Any

from handraise.model.identities import Link, Person, Role, Session
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    DAY,
    HOUR,
    INSTANT,
    DirectoryFixtures,
    digest_of,
    some_link,
    some_person,
    some_session,
)
from handraise.testing.promises import promise


class SessionCases(DirectoryFixtures):
    """What a directory promises about sessions and links."""

    async def test_a_session_lets_its_person_in(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        opened = await directory.open_session(
            workspace, "s-1", digest=digest_of("s-1"), person="ana", how="invitation", lasts=HOUR
        )
        assert opened == Session(
            workspace=workspace,
            id="s-1",
            person="ana",
            how="invitation",
            created_at=clock.now(),
            expires_at=clock.now() + HOUR,
        )
        bob = await some_person(directory, workspace, "bob")
        others = await some_session(directory, bob)
        assert await directory.find_session(workspace, digest_of("s-1")) == (opened, ana)
        assert await directory.find_session(workspace, digest_of("session of bob")) == (others, bob)
        assert await directory.find_session(workspace, digest_of("s-2")) is None

    async def test_nobody_gets_a_session_or_a_link_who_is_not_there(
        self, directory: Directory, workspace: str
    ) -> None:
        nobody = Person(workspace=workspace, id="nobody", name="Nobody", created_at=ManualClock().now())
        assert await some_session(directory, nobody) is None
        assert await some_link(directory, nobody) is None
        await some_person(directory, workspace, "nobody")
        assert await directory.find_session(workspace, digest_of("session of nobody")) is None
        assert await directory.find_link(workspace, digest_of("link of nobody")) is None

    async def test_a_session_ends_by_the_clock(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_session(directory, ana, lasts=HOUR)
        clock.advance(HOUR - INSTANT)
        assert await directory.find_session(workspace, digest_of("session of ana"))
        clock.advance(INSTANT)
        assert await directory.find_session(workspace, digest_of("session of ana")) is None

    async def test_many_sessions_are_found_at_once_without_those_that_have_ended(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        bob = await some_person(directory, workspace, "bob")
        await some_session(directory, ana, lasts=HOUR)
        clock.advance(HOUR)
        session = await some_session(directory, bob)
        digests = [digest_of(f"session of {each}") for each in ("ana", "bob", "nobody")]
        assert await directory.find_sessions(workspace, digests) == {digests[1]: (session, bob)}

    async def test_a_session_is_ended_once(self, directory: Directory, workspace: str, ana: Person) -> None:
        bob = await some_person(directory, workspace, "bob")
        session, _ = await some_session(directory, ana), await some_session(directory, bob)
        assert session is not None
        assert await directory.end_session(workspace, session.id) is True
        assert await directory.find_session(workspace, digest_of("session of ana")) is None
        assert await directory.end_session(workspace, session.id) is False
        assert await directory.end_session(workspace, "s-9") is False
        assert await directory.find_session(workspace, digest_of("session of bob"))

    async def test_the_sessions_of_a_person_are_listed_the_newest_first_until_they_end(
        self, directory: Directory, clock: ManualClock, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        for place, person in ((workspace, "bob"), (elsewhere, "ana")):
            await some_session(directory, await some_person(directory, place, person))
        opened = []
        for name, lasts in (("s-1", DAY), ("s-2", HOUR), ("s-3", DAY)):
            clock.advance(INSTANT)
            opened.append(
                await directory.open_session(
                    workspace, name, digest=digest_of(name), person=ana.id, how="sign-in", lasts=lasts
                )
            )
        first, second, third = opened
        assert list(await directory.sessions(workspace, "ana", limit=9)) == [third, second, first]
        assert list(await directory.sessions(workspace, "ana", limit=2)) == [third, second]
        clock.advance(HOUR)
        assert await directory.end_session(workspace, "s-1")
        assert list(await directory.sessions(workspace, "ana", limit=9)) == [third]
        assert list(await directory.sessions(workspace, "nobody", limit=9)) == []

    async def test_a_session_shows_its_person_as_they_are_now(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_session(directory, ana)
        await directory.put_group(workspace, "ops", ["ana"])
        await directory.put_group(workspace, "leads", ["ana"])
        now = await directory.put_person(workspace, "ana", name="Ana B.", email=None, role=Role.ADMIN)
        found = await directory.find_session(workspace, digest_of("session of ana"))
        assert found is not None
        assert found[1] == now
        assert (found[1].role, found[1].groups) == (Role.ADMIN, frozenset({"ops", "leads"}))
        await directory.put_group(workspace, "ops", [])
        found = await directory.find_session(workspace, digest_of("session of ana"))
        assert found is not None
        assert found[1].groups == {"leads"}

    async def test_a_link_that_is_looked_at_is_not_used(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        link = await directory.add_link(
            workspace, "l-1", digest=digest_of("l-1"), person=ana.id, purpose="invitation", lasts=DAY
        )
        assert link == Link(
            workspace=workspace,
            id="l-1",
            person="ana",
            purpose="invitation",
            created_at=clock.now(),
            expires_at=clock.now() + DAY,
        )
        for _ in range(3):
            assert await directory.find_link(workspace, digest_of("l-1")) == link
        assert await directory.use_link(workspace, digest_of("l-1")) == link

    async def test_the_evidence_that_people_have_is_of_sessions_that_last_and_of_passkeys(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        for name in ("ana", "bob", "cy", "dee"):
            await some_person(directory, workspace, name)
        for person, lasts, voucher in (("ana", HOUR, None), ("ana", HOUR, "boss"), ("bob", DAY, "boss")):
            name = f"{person}-{voucher}"
            await directory.open_session(
                workspace, name, digest=name, person=person, how="link", lasts=lasts, vouched_by=voucher
            )
        key: dict[str, Any] = {"name": "a", "domain": "d", "public_key": "p", "sign_count": 0}
        await directory.add_passkey(workspace, "k-1", person="ana", **key)
        await directory.add_passkey(workspace, "k-2", person="cy", vouched_by="boss", **key)
        await directory.add_passkey(workspace, "k-3", person="dee", **key)
        await directory.disable_person(workspace, "dee")
        by_boss = frozenset({"session-vouched-by:boss"})
        assert await directory.evidence(workspace) == {
            "ana": by_boss | {"session", "passkey"},
            "bob": by_boss,
            "cy": frozenset({"passkey-vouched-by:boss"}),
        }
        clock.advance(2 * HOUR)
        assert await directory.evidence(workspace) == {
            "ana": frozenset({"passkey"}),
            "bob": by_boss,
            "cy": frozenset({"passkey-vouched-by:boss"}),
        }

    async def test_who_vouches_for_a_person_stays_with_their_link_and_their_session(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        link = await directory.add_link(
            workspace, "l", digest="d", person=ana.id, purpose="invitation", lasts=DAY, vouched_by="boss"
        )
        assert link is not None
        assert link.vouched_by == "boss"
        assert await directory.find_link(workspace, "d") == link
        assert await directory.use_link(workspace, "d") == link
        session = await directory.open_session(
            workspace, "s", digest="d", person=ana.id, how="link", lasts=HOUR, vouched_by="boss"
        )
        assert session is not None
        assert (session.vouched_by, session.evidence) == ("boss", "session-vouched-by:boss")
        found = await directory.find_session(workspace, "d")
        assert found is not None
        assert found[0] == session

    async def test_when_a_person_last_signed_in_is_known(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        assert ana.signed_in_at is None
        assert await directory.open_session(
            workspace, "s-1", digest=digest_of("s-1"), person="ana", how="link", lasts=HOUR
        )
        clock.advance(DAY)
        await directory.put_person(workspace, "ana", name="Ana", email=None, role=Role.ADMIN)
        found = await directory.find_person(workspace, "ana")
        assert found is not None
        assert found.signed_in_at == clock.now() - DAY

    async def test_a_link_works_once(self, directory: Directory, workspace: str, ana: Person) -> None:
        link = await some_link(directory, ana)
        assert await directory.use_link(workspace, digest_of("link of bob")) is None
        assert await directory.use_link(workspace, digest_of("link of ana")) == link
        assert await directory.use_link(workspace, digest_of("link of ana")) is None
        assert await directory.find_link(workspace, digest_of("link of ana")) is None

    async def test_whoever_came_in_by_one_link_cannot_use_another(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        for name, person in (("one", "ana"), ("two", "ana"), ("his", "bob")):
            assert await directory.add_link(
                workspace, name, digest=digest_of(name), person=person, purpose="invitation", lasts=DAY
            )
        assert await directory.use_link(workspace, digest_of("two")) is not None
        assert await directory.use_link(workspace, digest_of("one")) is None
        assert await directory.use_link(workspace, digest_of("his")) is not None
        assert ana.id == "ana"

    async def test_of_many_who_use_a_link_at_once_one_gets_it(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        link = await some_link(directory, ana)
        digest = digest_of("link of ana")
        used = await asyncio.gather(*(directory.use_link(workspace, digest) for _ in range(AT_ONCE)))
        assert [each for each in used if each] == [link]

    async def test_a_link_ends_by_the_clock(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        link = await some_link(directory, ana, lasts=HOUR)
        clock.advance(HOUR - INSTANT)
        assert await directory.find_link(workspace, digest_of("link of ana")) == link
        clock.advance(INSTANT)
        assert await directory.find_link(workspace, digest_of("link of ana")) is None
        assert await directory.use_link(workspace, digest_of("link of ana")) is None

    @promise("P8")
    async def test_no_session_and_no_link_crosses_a_workspace(
        self, directory: Directory, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        session, link = await some_session(directory, ana), await some_link(directory, ana)
        assert session is not None
        assert link is not None
        twin = await some_person(directory, elsewhere, "ana")
        assert await directory.find_session(elsewhere, digest_of("session of ana")) is None
        assert await directory.end_session(elsewhere, session.id) is False
        assert await directory.find_link(elsewhere, digest_of("link of ana")) is None
        assert await directory.use_link(elsewhere, digest_of("link of ana")) is None
        await some_session(directory, twin)
        await some_link(directory, twin)
        await directory.remove_person(elsewhere, "ana")
        assert await directory.find_session(workspace, digest_of("session of ana")) == (session, ana)
        assert await directory.use_link(workspace, digest_of("link of ana")) == link

    @promise("P8")
    async def test_no_person_of_another_workspace_is_let_in(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        stranger = await some_person(directory, elsewhere, "stranger")
        lent = Person(workspace=workspace, id=stranger.id, name="", created_at=stranger.created_at)
        assert await some_session(directory, lent) is None
        assert await some_link(directory, lent) is None
