"""Who is away, for how long, and who answers for them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from handraise.model.away import Away
from handraise.model.identities import Person, Role
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    HOUR,
    INSTANT,
    DirectoryFixtures,
    digest_of,
    some_person,
    some_session,
)
from handraise.testing.promises import promise


class AwayCases(DirectoryFixtures):
    """What a directory promises about people who are away."""

    async def test_who_is_away_is_kept_with_the_person(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        away = Away(starts=clock.now(), until=clock.now() + HOUR, deputy="bob")
        gone = await directory.set_away(workspace, "ana", away, by="ana")
        assert gone is not None
        assert gone.away == away
        await directory.put_person(workspace, "ana", name="Ana", email=ana.email, role=Role.ADMIN)
        await directory.set_preferences(workspace, "ana", language="de", time_zone=None)
        await directory.put_group(workspace, "leads", ["ana"])
        found = await directory.find_person(workspace, "ana")
        assert found is not None
        assert (found.away, found.role) == (away, Role.ADMIN)
        assert found.groups == {"leads"}
        assert [each.away for each in await directory.people(workspace, after=None, limit=9)] == [away, None]

    async def test_only_who_is_away_now_is_away(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        begins, ends = clock.now() + HOUR, clock.now() + 2 * HOUR
        later = Away(starts=begins, until=ends, deputy="bob")
        await directory.set_away(workspace, ana.id, later)
        assert await directory.away(workspace) == {}
        clock.advance(HOUR - INSTANT)
        assert await directory.away(workspace) == {}
        clock.advance(INSTANT)
        assert await directory.away(workspace) == {"ana": later}
        clock.advance(HOUR - INSTANT)
        assert await directory.away(workspace) == {"ana": later}
        clock.advance(INSTANT)
        assert await directory.away(workspace) == {}

    async def test_somebody_who_is_back_is_not_away(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await directory.set_away(workspace, ana.id, Away(starts=clock.now(), until=clock.now() + HOUR))
        assert [*await directory.away(workspace)] == ["ana"]
        back = await directory.set_away(workspace, ana.id, None, by="ana")
        assert back is not None
        assert back.away is None
        assert await directory.away(workspace) == {}

    async def test_a_deputy_must_exist(
        self, directory: Directory, clock: ManualClock, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        await some_person(directory, elsewhere, "bob")
        away = Away(starts=clock.now(), until=clock.now() + HOUR, deputy="bob")
        assert await directory.set_away(workspace, ana.id, away) is None
        assert await directory.set_away(workspace, "nobody", None) is None
        assert await directory.set_away(elsewhere, "ana", away) is None
        assert await directory.away(workspace) == {}
        assert await directory.away(elsewhere) == {}

    async def test_a_deputy_who_is_removed_answers_for_nobody(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        away = Away(starts=clock.now(), until=clock.now() + HOUR, deputy="bob")
        await directory.set_away(workspace, ana.id, away)
        await directory.remove_person(workspace, "bob")
        await some_person(directory, workspace, "bob")  # somebody else
        left = await directory.away(workspace)
        assert left == {"ana": Away(starts=away.starts, until=away.until)}

    async def test_who_is_removed_is_not_away_when_they_come_back(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await directory.set_away(workspace, ana.id, Away(starts=clock.now(), until=clock.now() + HOUR))
        await directory.remove_person(workspace, ana.id)
        assert await directory.away(workspace) == {}
        assert (await some_person(directory, workspace, "ana")).away is None

    async def test_a_session_has_its_person_as_away(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_session(directory, ana)
        away = Away(starts=clock.now() - timedelta(days=1), until=clock.now() + HOUR)
        await directory.set_away(workspace, ana.id, away)
        found = await directory.find_session(workspace, digest_of("session of ana"))
        assert found is not None
        assert found[1].away == away

    @promise("P17")
    async def test_the_last_of_many_who_say_it_counts_whole(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        periods = [
            Away(starts=clock.now(), until=clock.now() + n * HOUR, deputy="bob" if n % 2 else None)
            for n in range(1, AT_ONCE)
        ]
        await asyncio.gather(*(directory.set_away(workspace, ana.id, each) for each in periods))
        assert (await directory.away(workspace))["ana"] in periods
