"""Agent keys: found by their digests until they are revoked."""

from __future__ import annotations

from handraise.model.identities import AgentKey
from handraise.ports import Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import HOUR, DirectoryFixtures, digest_of, some_key
from handraise.testing.promises import promise


class AgentKeyCases(DirectoryFixtures):
    """What a directory promises about agent keys."""

    async def test_a_key_is_found_by_its_digest(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        added = await directory.add_key(
            workspace, "k-1", digest=digest_of("k-1"), agent="deployer", created_by="ana"
        )
        assert added == AgentKey(
            workspace=workspace, id="k-1", agent="deployer", created_at=clock.now(), created_by="ana"
        )
        assert await directory.find_key(workspace, digest_of("k-1")) == added
        assert await directory.find_key(workspace, digest_of("k-2")) is None

    async def test_an_agent_may_have_several_keys(self, directory: Directory, workspace: str) -> None:
        first, second = [await some_key(directory, workspace, each) for each in ("k-1", "k-2")]
        assert first.agent == second.agent
        assert await directory.find_key(workspace, digest_of("k-1")) == first
        assert await directory.find_key(workspace, digest_of("k-2")) == second

    async def test_a_revoked_key_is_found_no_more_but_listed(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_key(directory, workspace, "k-1")
        clock.advance(HOUR)
        revoked = await directory.revoke_key(workspace, "k-1", by="ana")
        assert revoked is not None
        assert (revoked.revoked_at, revoked.revoked_by) == (clock.now(), "ana")
        assert await directory.find_key(workspace, digest_of("k-1")) is None
        assert await directory.keys(workspace, after=None, limit=10) == [revoked]

    async def test_many_keys_are_found_at_once_without_those_that_are_revoked_or_elsewhere(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        first, _ = [await some_key(directory, workspace, each) for each in ("k-1", "k-2")]
        await some_key(directory, elsewhere, "k-3")
        await directory.revoke_key(workspace, "k-2", by="ana")
        digests = [digest_of(each) for each in ("k-1", "k-2", "k-3", "k-4")]
        assert await directory.find_keys(workspace, digests) == {digest_of("k-1"): first}
        assert await directory.find_keys(workspace, []) == {}

    async def test_revoking_a_second_time_changes_nothing(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_key(directory, workspace, "k-1")
        revoked = await directory.revoke_key(workspace, "k-1", by="ana")
        clock.advance(HOUR)
        assert await directory.revoke_key(workspace, "k-1", by="bob") == revoked

    async def test_revoking_what_is_not_there_gives_none(self, directory: Directory, workspace: str) -> None:
        assert await directory.revoke_key(workspace, "k-1", by="ana") is None

    async def test_revoking_one_key_leaves_the_others_of_an_agent(
        self, directory: Directory, workspace: str
    ) -> None:
        await some_key(directory, workspace, "k-1")
        kept = await some_key(directory, workspace, "k-2")
        await directory.revoke_key(workspace, "k-1", by="ana")
        assert await directory.find_key(workspace, digest_of("k-2")) == kept

    async def test_the_last_use_of_a_key_is_known(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        assert (await some_key(directory, workspace, "k-1")).last_used_at is None
        for _ in range(2):
            clock.advance(HOUR)
            await directory.note_use(workspace, "k-1")
            found = await directory.find_key(workspace, digest_of("k-1"))
            assert found is not None
            assert found.last_used_at == clock.now()

    async def test_the_use_of_an_unknown_key_changes_nothing(
        self, directory: Directory, workspace: str
    ) -> None:
        key = await some_key(directory, workspace, "k-1")
        await directory.note_use(workspace, "k-2")
        assert await directory.keys(workspace, after=None, limit=10) == [key]

    async def test_keys_come_in_pages_in_the_order_of_their_ids(
        self, directory: Directory, workspace: str
    ) -> None:
        for each in ("k-3", "K-9", "k-1", "k-2", "é"):
            await some_key(directory, workspace, each)
        first = await directory.keys(workspace, after=None, limit=3)
        second = await directory.keys(workspace, after=first[-1].id, limit=3)
        assert [[key.id for key in page] for page in (first, second)] == [["K-9", "k-1", "k-2"], ["k-3", "é"]]

    @promise("P8")
    async def test_no_key_crosses_a_workspace(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        key = await some_key(directory, workspace, "k-1")
        assert await directory.find_key(elsewhere, digest_of("k-1")) is None
        assert await directory.keys(elsewhere, after=None, limit=10) == []
        await directory.note_use(elsewhere, "k-1")
        assert await directory.revoke_key(elsewhere, "k-1", by="ana") is None
        assert await directory.find_key(workspace, digest_of("k-1")) == key
        assert (await some_key(directory, elsewhere, "k-1")).workspace == elsewhere
        assert await directory.keys(workspace, after=None, limit=10) == [key]
