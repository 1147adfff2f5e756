"""The views that people save for their own lists."""

from __future__ import annotations

import asyncio

from handraise.model.identities import Person
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import MINUTE, DirectoryFixtures, some_person


class SavedViewCases(DirectoryFixtures):
    """What a directory promises about saved views."""

    async def test_views_are_of_one_person_in_the_order_in_which_they_were_saved(
        self, directory: Directory, clock: ManualClock, workspace: str, elsewhere: str, ana: Person
    ) -> None:
        for place in (workspace, elsewhere):
            await some_person(directory, place, "bob")
        first = await directory.save_view(workspace, ana.id, "zü", query="view=urgent&q=%00", at_most=2)
        clock.advance(MINUTE)
        second = await directory.save_view(workspace, ana.id, "a", query="", at_most=2)
        assert first is not None
        assert (first.workspace, first.person, first.name) == (workspace, ana.id, "zü")
        assert (first.query, first.created_at) == ("view=urgent&q=%00", clock.now() - MINUTE)
        assert await directory.saved_views(workspace, ana.id) == [first, second]
        assert await directory.saved_views(workspace, "bob") == []
        assert await directory.saved_views(elsewhere, ana.id) == []
        assert await directory.remove_view(workspace, "bob", "zü") is False
        assert await directory.remove_view(elsewhere, ana.id, "zü") is False
        assert await directory.remove_view(workspace, ana.id, "zü") is True
        assert await directory.remove_view(workspace, ana.id, "zü") is False
        assert await directory.saved_views(workspace, ana.id) == [second]

    async def test_one_name_is_used_once_and_nobody_saves_more_than_allowed(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await some_person(directory, workspace, "bob")
        assert await directory.save_view(workspace, "nobody", "a", query="", at_most=3) is None
        tries = [
            directory.save_view(workspace, ana.id, f"view {number % 5}", query=str(number), at_most=3)
            for number in range(20)
        ]
        saved = [each for each in await asyncio.gather(*tries) if each is not None]
        assert len({each.name for each in saved}) == len(saved) == 3
        found = await directory.saved_views(workspace, ana.id)
        assert sorted(each.query for each in found) == sorted(each.query for each in saved)
        assert await directory.save_view(workspace, "bob", saved[0].name, query="", at_most=3) is not None

    async def test_views_are_removed_with_their_person(
        self, directory: Directory, workspace: str, ana: Person
    ) -> None:
        await directory.save_view(workspace, ana.id, "a", query="", at_most=3)
        await directory.remove_person(workspace, ana.id)
        await some_person(directory, workspace, ana.id)
        assert await directory.saved_views(workspace, ana.id) == []
