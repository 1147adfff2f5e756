"""Requests that are not done twice."""

from __future__ import annotations

import asyncio
from collections import Counter

from handraise.ports import Claim, Directory
from handraise.testing.clock import ManualClock
from handraise.testing.contract.directory.factories import (
    AT_ONCE,
    DAY,
    INSTANT,
    MINUTE,
    DirectoryFixtures,
    some_claim,
)
from handraise.testing.promises import promise


class IdempotencyCases(DirectoryFixtures):
    """What a directory promises about requests with an idempotency key."""

    async def test_a_request_is_new_then_busy_then_done(self, directory: Directory, workspace: str) -> None:
        assert await some_claim(directory, workspace, made="q-1") == Claim(state="new", made="q-1", turn=1)
        assert await some_claim(directory, workspace, made="q-2") == Claim(state="busy", made="q-1")
        await directory.finish(workspace, "deployer", "k", turn=1, status=201, body='{"id": "q-1 ü"}')
        for _ in range(2):
            assert await some_claim(directory, workspace, made="q-3") == Claim(
                state="done", made="q-1", status=201, body='{"id": "q-1 ü"}'
            )

    async def test_a_key_used_for_something_else_is_told_apart(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_claim(directory, workspace, fingerprint="one")
        assert (await some_claim(directory, workspace, fingerprint="two")).state == "different"
        clock.advance(DAY)
        assert (await some_claim(directory, workspace, fingerprint="two")).state == "different"
        await directory.finish(workspace, "deployer", "k", turn=1, status=200, body="{}")
        other = await some_claim(directory, workspace, fingerprint="two")
        assert (other.state, other.status, other.body) == ("different", None, None)
        assert (await some_claim(directory, workspace, fingerprint="one")).state == "done"

    async def test_a_request_nobody_finishes_can_be_taken_over(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_claim(directory, workspace, made="q-1")
        clock.advance(MINUTE - INSTANT)
        assert (await some_claim(directory, workspace)).state == "busy"
        clock.advance(INSTANT)
        assert await some_claim(directory, workspace, made="q-2") == Claim(state="again", made="q-1", turn=2)
        clock.advance(MINUTE - INSTANT)
        assert (await some_claim(directory, workspace)).state == "busy"
        clock.advance(INSTANT)
        assert await some_claim(directory, workspace, made="q-3") == Claim(state="again", made="q-1", turn=3)

    async def test_a_finished_request_stays_done(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_claim(directory, workspace)
        await directory.finish(workspace, "deployer", "k", turn=1, status=200, body="first")
        clock.advance(DAY)
        await directory.finish(workspace, "deployer", "k", turn=1, status=500, body="second")
        await directory.release(workspace, "deployer", "k", turn=1)
        done = await some_claim(directory, workspace)
        assert (done.state, done.status, done.body) == ("done", 200, "first")

    async def test_a_request_that_was_given_up_is_taken_over_at_once(
        self, directory: Directory, workspace: str
    ) -> None:
        await some_claim(directory, workspace, made="q-1")
        await directory.release(workspace, "deployer", "k", turn=1)
        assert (await some_claim(directory, workspace, fingerprint="two")).state == "different"
        assert await some_claim(directory, workspace, made="q-2") == Claim(state="again", made="q-1", turn=2)
        assert (await some_claim(directory, workspace)).state == "busy"

    async def test_whoever_lost_a_request_to_another_neither_finishes_nor_releases_it(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        await some_claim(directory, workspace)
        clock.advance(MINUTE)
        assert (await some_claim(directory, workspace)).turn == 2
        await directory.release(workspace, "deployer", "k", turn=1)
        assert (await some_claim(directory, workspace)).state == "busy"
        await directory.finish(workspace, "deployer", "k", turn=1, status=500, body="late")
        assert (await some_claim(directory, workspace)).state == "busy"
        await directory.finish(workspace, "deployer", "k", turn=2, status=200, body="{}")
        assert (await some_claim(directory, workspace)).body == "{}"

    async def test_what_nobody_claimed_is_neither_finished_nor_released(
        self, directory: Directory, workspace: str
    ) -> None:
        await directory.finish(workspace, "deployer", "k", turn=1, status=200, body="{}")
        await directory.release(workspace, "deployer", "k", turn=1)
        assert (await some_claim(directory, workspace)).state == "new"

    async def test_of_many_who_claim_at_once_one_gets_it(
        self, directory: Directory, clock: ManualClock, workspace: str
    ) -> None:
        claims = await asyncio.gather(
            *(some_claim(directory, workspace, made=f"q-{n}") for n in range(AT_ONCE))
        )
        assert Counter(claim.state for claim in claims) == {"new": 1, "busy": AT_ONCE - 1}
        assert len({claim.made for claim in claims}) == 1
        clock.advance(MINUTE)
        later = await asyncio.gather(*(some_claim(directory, workspace) for _ in range(AT_ONCE)))
        assert Counter(claim.state for claim in later) == {"again": 1, "busy": AT_ONCE - 1}
        assert {claim.made for claim in later} == {claims[0].made}

    async def test_an_idempotency_key_is_the_actors_own(self, directory: Directory, workspace: str) -> None:
        for actor in ("deployer", "ana"):
            assert (await some_claim(directory, workspace, actor=actor)).state == "new"
        await directory.release(workspace, "ana", "k", turn=1)
        await directory.finish(workspace, "ana", "k", turn=1, status=200, body="{}")
        assert (await some_claim(directory, workspace)).state == "busy"

    async def test_requests_with_other_keys_have_nothing_to_do_with_each_other(
        self, directory: Directory, workspace: str
    ) -> None:
        for key in ("finished", "released", "left"):
            assert (await some_claim(directory, workspace, key=key, made=key)).state == "new"
        await directory.finish(workspace, "deployer", "finished", turn=1, status=200, body="{}")
        await directory.release(workspace, "deployer", "released", turn=1)
        assert await some_claim(directory, workspace, key="left") == Claim(state="busy", made="left")
        assert (await some_claim(directory, workspace, key="finished")).state == "done"
        assert (await some_claim(directory, workspace, key="released")).state == "again"

    @promise("P8")
    async def test_no_request_crosses_a_workspace(
        self, directory: Directory, workspace: str, elsewhere: str
    ) -> None:
        for place, made in ((workspace, "q-1"), (elsewhere, "q-2")):
            for key in ("finished", "released", "left"):
                claim = await some_claim(directory, place, key=key, fingerprint=made, made=made)
                assert claim == Claim(state="new", made=made, turn=1)
        await directory.finish(elsewhere, "deployer", "finished", turn=1, status=200, body="{}")
        await directory.release(elsewhere, "deployer", "released", turn=1)
        for key in ("finished", "released", "left"):
            claim = await some_claim(directory, workspace, key=key, fingerprint="q-1", made="q-3")
            assert claim == Claim(state="busy", made="q-1")
        assert (await some_claim(directory, elsewhere, key="left", fingerprint="q-2")).made == "q-2"
