"""The quota of a desk without a server, and at one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from handraise import open_desk
from handraise.backends.postgres.quota import QuotaCache
from handraise.client import RemoteDesk
from handraise.errors import QuotaExceeded
from handraise.model.drafting import compose
from handraise.questions import Draft, Limits
from handraise.server import ServerSettings, create_app, open_server
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.client.test_remote_desk import served


async def test_a_desk_has_a_quota_only_if_one_is_given() -> None:
    async with open_desk("memory:") as desk:
        for _ in range(1_001):
            await desk.post("Which?")
    async with open_desk("memory:", pending_quota=1) as desk:
        await desk.post("Which?")
        with pytest.raises(QuotaExceeded, match="1 pending"):
            await desk.post("Which else?")


@pytest.mark.parametrize("number", [0, -1])
async def test_a_quota_under_which_nobody_could_ask_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="None for any number"):
        async with open_desk("memory:", pending_quota=number):
            pass


async def test_the_quota_of_a_server_is_set_at_the_server() -> None:
    with pytest.raises(ValueError, match="HANDRAISE_PENDING_QUOTA"):
        async with open_desk("http://127.0.0.1:1", pending_quota=3):
            pass


async def test_what_is_past_its_expiry_takes_up_no_room() -> None:
    clock = ManualClock()
    async with open_desk("memory:", clock=clock, pending_quota=1) as desk:
        await desk.post("Which?", expires_in=60)
        clock.advance(timedelta(minutes=2))
        assert (await desk.post("Which else?")).status == "pending"


async def test_a_desk_at_a_server_raises_the_same_error() -> None:
    async with open_server(ServerSettings(url="memory:", pending_quota=1)) as ctx:
        key = await Issuer(ctx.directory).agent("lab", "robot")
        async with served(create_app(ctx)) as address, open_desk(address, credentials=key) as desk:
            assert isinstance(desk, RemoteDesk)
            await desk.post("Which?")
            with pytest.raises(QuotaExceeded) as refused:
                await desk.post("Which else?")
            assert (refused.value.asker, refused.value.workspace, refused.value.quota) == ("robot", "lab", 1)


def test_an_allowance_is_part_of_what_is_left_and_ends() -> None:
    now = 0.0
    allowances = QuotaCache(lambda: now)
    one, many = [draft()], [draft(), draft(), draft()]
    assert not allowances.cover(one)
    allowances.counted({("lab", "agent"): 16})
    assert allowances.cover(many)
    assert not allowances.cover(many)
    assert allowances.cover(one)
    assert not allowances.cover(one)
    allowances.counted({("lab", "agent"): 16})
    now = 1.0
    assert not allowances.cover(one)
    allowances.counted({("lab", "agent"): 3})
    assert not allowances.cover(one)


def draft() -> Draft:
    return compose("Which?", {}, new_id="q", workspace="lab", asker="agent", limits=Limits())
