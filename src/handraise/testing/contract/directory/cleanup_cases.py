"""Deleting what ended long ago, and nothing else."""

from __future__ import annotations

from handraise.model.identities import Person
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    DAY,
    HOUR,
    DirectoryFixtures,
    digest_of,
    forget_all,
    some_claim,
    some_key,
    some_link,
    some_person,
    some_question_link,
    some_session,
)


class CleanupCases(DirectoryFixtures):
    """What a directory promises about old records."""

    async def test_old_requests_are_forgotten_and_young_ones_kept(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        for key in ("finished", "unfinished"):
            await some_claim(directory, workspace, key=key)
        await directory.finish(workspace, "deployer", "finished", turn=1, status=200, body="{}")
        clock.advance(2 * DAY)
        await some_claim(directory, workspace, key="young")
        await forget_all(directory, older_than=DAY)
        for key, state in (("finished", "new"), ("unfinished", "new"), ("young", "busy")):
            assert (await some_claim(directory, workspace, key=key)).state == state

    async def test_nothing_that_lasts_is_forgotten(
        self, directory: Directory, clock: ManualClock, workspace: str, ana: Person
    ) -> None:
        await directory.put_group(workspace, "ops", ["ana"])
        key = await some_key(directory, workspace, "k-1")
        session, link, asked = (
            await some_session(directory, ana, lasts=3 * DAY),
            await some_link(directory, ana, lasts=3 * DAY),
            await some_question_link(directory, ana, lasts=3 * DAY),
        )
        clock.advance(2 * DAY)
        await forget_all(directory, older_than=DAY)
        assert await directory.find_key(workspace, digest_of("k-1")) == key
        assert await directory.groups(workspace) == {"ops": ["ana"]}
        found = await directory.find_session(workspace, digest_of("session of ana"))
        assert found is not None
        assert found[0] == session
        assert await directory.find_link(workspace, digest_of("link of ana")) == link
        question = await directory.find_question_link(workspace, digest_of("q for ana"))
        assert question is not None
        assert question[0] == asked

    async def test_forgetting_keeps_to_its_limit_and_counts(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        # Far ahead of whatever other tests left in the same store.
        clock.advance(10_000 * DAY)
        await forget_all(directory, older_than=HOUR)
        for n in range(3):
            person = await some_person(directory, workspace, f"p-{n}")
            await some_session(directory, person, lasts=HOUR)
            await some_link(directory, person, lasts=HOUR)
            await some_question_link(directory, person, lasts=HOUR)
            await some_claim(directory, workspace, key=f"k-{n}")
        clock.advance(2 * HOUR)
        assert await directory.forget(older_than=DAY, limit=2) == 0
        clock.advance(DAY)
        assert await directory.forget(older_than=DAY, limit=2) == 8
        assert await directory.forget(older_than=DAY, limit=2) == 4
        assert await directory.forget(older_than=DAY, limit=2) == 0
