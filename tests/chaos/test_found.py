"""What the faults have found in the product, each in a few seconds: these must not come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest

from chaos.faults.cut_commits import desks_behind_server, fates
from chaos.faults.harness import desks_on
from chaos.faults.pooler_crash import pooler_to
from chaos.faults.server_crash import SAFE, with_standby
from chaos.faults.tcp_proxy import Fate, Proxy, proxy_to
from chaos.servers import own_servers
from handraise import Approval, StoreUnavailable, open_desk
from handraise.backends.postgres import bus, connections, open_postgres
from handraise.desks import desk_from_store
from handraise.errors import AlreadyConsumed
from handraise.ports.desk import Desk
from handraise.testing import promise
from support.database import fetch_value
from tests.conftest import own_database
from tests.tiers import NIGHTLY, sized

pytestmark = [pytest.mark.timeout(120)]

SOON = 15.0


@pytest.fixture
def database() -> Iterator[str]:
    with own_database() as address:
        yield address


@promise("P4")
@pytest.mark.slow("it crashes a PostgreSQL of its own, and the feed's order is in tests/contract")
async def test_who_follows_from_now_on_misses_nothing_when_postgres_crashes_and_counts_transactions_anew() -> (
    None
):
    # A transaction that leaves nothing to be kept has a number, and a crash forgets that it was given out.
    with own_servers(1, {**SAFE, "wal_writer_delay": "10s"}) as (server,):
        async with desks_on(server.address, 1) as (desk,):
            await desk.post("First?")
            connection = await asyncpg.connect(server.address)
            for number in range(50):
                await connection.execute(
                    "insert into handraise.listeners (process, seen_at) values ($1, now())", f"gone {number}"
                )
            await connection.close()
            events = desk.follow()
            first = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.5)  # it has begun by then, and nothing was written since
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            question = await posted(desk)
            assert (await asyncio.wait_for(first, SOON)).question_id == question
            await events.aclose()


async def posted(desk: Desk) -> str:
    async with asyncio.timeout(SOON):
        while True:
            try:
                return (await desk.post("Still there?", key="once")).id
            except StoreUnavailable:
                await asyncio.sleep(0.05)


@promise("P10")
@pytest.mark.only_proof_of("a row that somebody locked who is gone can be answered soon")
@pytest.mark.parametrize("between", ["nothing", "a pooler"])
async def test_who_is_cut_off_in_a_transaction_keeps_nobody_from_answering(
    database: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_ABANDONED", "1s")
    async with AsyncExitStack() as stack:
        (desk,) = await stack.enter_async_context(desks_on(database, 1))
        question = await desk.post("Ship it?")
        place = database
        if between == "a pooler":
            user = await fetch_value(database, "select current_user")
            place = stack.enter_context(pooler_to(database, user)).address
        proxy = await stack.enter_async_context(proxy_to(place))
        listen = None if between == "nothing" else database
        backend = await stack.enter_async_context(open_postgres(proxy.address, listen=listen, confined=True))
        gone = await stack.enter_async_context(desk_from_store(backend.store, backend.bus, workspace="chaos"))
        fates(proxy, [Fate.HELD])
        lost = asyncio.create_task(gone.answer(question.id, "yes", by="ann"))
        while not proxy.fates[Fate.HELD]:
            await asyncio.sleep(0.01)
        # Its row is locked now, and it will never say commit.
        answered = await asyncio.wait_for(desk.answer(question.id, "no", by="ben"), SOON)
        assert getattr(answered.outcome, "by", None) == "ben"
        proxy.cut_all()
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(lost, SOON)


@promise("P10")
@pytest.mark.only_proof_of("a connection whose network went silent is not used again")
@pytest.mark.parametrize(
    "confined",
    [
        "confined",
        pytest.param("plain", marks=pytest.mark.slow("the pool is the same as behind row security")),
    ],
)
async def test_a_connection_that_went_silent_is_not_used_again(
    database: str, confined: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = 2.0 if NIGHTLY else 1.0
    for name in ("WITHIN", "_AT_LEAST"):
        monkeypatch.setattr(f"handraise.backends.postgres.database.{name}", within)
    async with (
        proxy_to(database) as proxy,
        open_postgres(proxy.address, connections=2, confined=confined == "confined" or None) as backend,
        desk_from_store(backend.store, backend.bus) as desk,
    ):
        await desk.post("Ship it?")
        await asyncio.sleep(0.3)  # the hint that goes with it is gone, too
        proxy.silence()
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await desk.post("Are you there?")
        if NIGHTLY:  # and not once more as long, for the sake of a rollback
            assert time.monotonic() - began < within + 1.5
        await desk.post("Is anybody there?")


PAY = Approval.of("pay", {"amount": 1})


def lose_the_reply_to_consume(proxy: Proxy) -> None:
    """Cut the connection that has just committed a consume, once."""

    def decide(sql: str) -> Fate:
        is_it = "update handraise.questions" in sql and "set consumed_at" in sql
        return Fate.REPLY_LOST if is_it and not proxy.fates[Fate.REPLY_LOST] else Fate.PASSED

    proxy.decide = decide


async def approved(desk: Desk) -> str:
    question = await desk.post("Pay?", form=PAY)
    await desk.answer(question.id, "approve", by="ann")
    return question.id


@pytest.mark.only_proof_of("an action is given out, once, where the server did not hear that it was consumed")
async def test_an_action_is_given_out_where_a_server_was_cut_off_after_it_had_consumed(
    database: str, tmp_path: Path
) -> None:
    async with desks_behind_server(database, tmp_path, 1) as (proxy, (desk,)):
        question_id = await approved(desk)
        lose_the_reply_to_consume(proxy)
        assert await desk.consume_approval(question_id) == PAY.action
        assert proxy.fates[Fate.REPLY_LOST] == 1
        with pytest.raises(AlreadyConsumed):
            await desk.consume_approval(question_id)
        kinds = [event.kind for event in await desk.history(question_id)]
        assert kinds == ["asked", "answered", "consumed"]


@pytest.mark.parametrize("confined", ["confined", "plain"])
async def test_an_action_is_given_out_to_whoever_was_cut_off_and_sends_the_same_request_again(
    database: str, confined: str
) -> None:
    async with (
        proxy_to(database) as proxy,
        open_postgres(proxy.address, connections=2, confined=confined == "confined" or None) as backend,
        desk_from_store(backend.store, backend.bus) as desk,
    ):
        question_id = await approved(desk)
        lose_the_reply_to_consume(proxy)
        with pytest.raises(StoreUnavailable):
            await desk.consume_approval(question_id, request="one")
        with pytest.raises(AlreadyConsumed):
            await desk.consume_approval(question_id, request="another")
        assert await desk.consume_approval(question_id, request="one") == PAY.action
        assert proxy.fates[Fate.REPLY_LOST] == 1


@promise("P4")
@pytest.mark.only_proof_of("a listener whose network went silent is replaced")
async def test_a_listener_that_went_silent_is_replaced(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus, "_HEARTBEAT", 0.2)
    monkeypatch.setattr(connections, "_ALONE_WITHIN", 4.0 if NIGHTLY else 2.0)
    async with (
        proxy_to(database) as proxy,
        desks_on(proxy.address, 1, poll=60.0) as (waiting,),
        desks_on(database, 1) as (answering,),
    ):
        question = await waiting.post("Ship it?")
        wait = asyncio.create_task(waiting.wait(question.id, timeout=60))
        await asyncio.sleep(0.5)
        proxy.silence("handraise listener")
        await answering.answer(question.id, "yes", by="ann")
        began = time.monotonic()
        assert getattr(await wait, "value", None) == "yes"
        print(f"\n  a silent listener was replaced after {time.monotonic() - began:.1f} s", end="")
        assert time.monotonic() - began < sized(gate=30, nightly=7)  # and not by the poll, after a minute


@promise("P2")
@pytest.mark.slow("starts a primary and a standby for one sentence of the check of durability")
async def test_a_standby_is_refused() -> None:
    async with with_standby(synchronous=True) as (primary, standby), open_desk(primary.address) as desk:
        await desk.post("Ship it?")
        written = await fetch_value(primary.address, "select pg_current_wal_lsn()")
        async with asyncio.timeout(SOON):
            seen = "select replay_lsn >= $1 from pg_stat_replication"
            while not await fetch_value(primary.address, seen, written):
                await asyncio.sleep(0.02)
        with pytest.raises(StoreUnavailable, match="leads to a standby"):
            async with open_desk(standby.address):
                pass
