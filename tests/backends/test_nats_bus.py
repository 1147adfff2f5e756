"""Hints over NATS: what happens when it is away, and what strangers on it can do."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
from nats.aio.client import Client

from chaos.servers import Program
from handraise import Answered, StillPending, open_desk
from handraise.backends.nats.bus import NatsAddress, NatsBus, open_nats
from handraise.backends.nats.listener import token_of
from handraise.errors import UnknownAddress
from handraise.ports import feed_of
from handraise.questions import Ref
from handraise.testing.contract.bus import RecordingListener

SOON = 10.0
SETTLED = Ref("w", "q-1")


@asynccontextmanager
async def stranger(address: str) -> AsyncIterator[tuple[Client, str]]:
    """Somebody else on the same NATS, and the subject that hints are sent below."""
    place, client = NatsAddress.parse(address), Client()
    await client.connect(place.servers[0])
    try:
        yield client, place.subject
    finally:
        await client.close()


async def test_nothing_is_lost_when_nats_is_killed_and_comes_back(
    postgres: str, workspace: str, nats_server: Program
) -> None:
    async with (
        open_desk(postgres, workspace=workspace, bus=nats_server.address, poll_interval=0.5) as asker,
        open_desk(postgres, workspace=workspace, bus=nats_server.address) as person,
        asyncio.timeout(6 * SOON),
    ):
        questions = [await asker.post(f"Which {n}?") for n in range(30)]
        waits = [asyncio.create_task(asker.wait(each.id)) for each in questions]
        for n, question in enumerate(questions):
            if n == 10:
                nats_server.kill()
            if n == 20:
                nats_server.start()
            await person.answer(question.id, question.prompt, by="ana")
        outcomes = await asyncio.gather(*waits)
        assert [each.value for each in outcomes if isinstance(each, Answered)] == [
            q.prompt for q in questions
        ]


async def test_it_ends_though_the_driver_swallows_a_cancellation(
    nats_server: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = asyncio.Event()

    async def close(client: Client) -> None:
        del client
        closing.set()
        with suppress(asyncio.CancelledError):  # as the driver does while it is still connecting again
            await asyncio.sleep(SOON)

    monkeypatch.setattr(Client, "close", close)
    async with asyncio.timeout(SOON):
        async with open_nats(nats_server.address):
            nats_server.kill()
            await closing.wait()


async def test_hints_flow_again_when_nats_is_back_and_the_gap_is_told_of(nats_server: Program) -> None:
    listener = RecordingListener()
    async with (
        open_nats(nats_server.address) as here,
        open_nats(nats_server.address) as there,
        there.listen(listener),
    ):
        await here.wake([SETTLED])
        await listener.hears(SETTLED)
        nats_server.kill()
        await here.wake([Ref("w", "lost or late")])
        nats_server.start()
        await listener.hears_of_a_gap()
        async with asyncio.timeout(SOON):
            n = 0
            while not any(topic.id.startswith("again") for topic in listener.topics):
                await here.wake([Ref("w", f"again {(n := n + 1)}")])
                await asyncio.sleep(0.05)


async def test_what_was_sent_while_nats_was_away_is_sent_when_it_is_back(nats: str) -> None:
    away, listener = NatsBus(NatsAddress.parse(nats)), RecordingListener()
    topics = [Ref("w", f"q-{n}") for n in range(5_000)]
    for start in range(0, 5_000, 50):
        await away.wake(topics[start : start + 50])
    async with open_nats(nats) as there, there.listen(listener):
        connecting = asyncio.create_task(away.keep_connected())
        await listener.hears(*topics[:1_000])
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
    assert len(listener.topics) == 1_000, "what is kept meanwhile is bounded"


async def test_a_desk_opens_and_works_while_nats_is_away(
    postgres: str, workspace: str, nats_server: Program
) -> None:
    nats_server.kill()
    began = time.monotonic()
    async with (
        open_desk(postgres, workspace=workspace, bus=nats_server.address, poll_interval=0.1) as asker,
        open_desk(postgres, workspace=workspace, bus=nats_server.address) as person,
    ):
        assert time.monotonic() - began < SOON
        question = await asker.post("Which?")
        waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
        await asyncio.sleep(0)
        await person.answer(question.id, "a", by="ana")
        assert isinstance(await waiting, Answered)


async def test_a_forged_hint_decides_nothing(postgres: str, workspace: str, nats: str) -> None:
    async with (
        open_desk(postgres, workspace=workspace, bus=nats, poll_interval=10 * SOON) as asker,
        open_desk(postgres, workspace=workspace, bus=nats) as person,
        stranger(nats) as (client, subject),
    ):
        question = await asker.post("Which?")
        waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
        outcome = {"status": "answered", "value": "forged", "by": "ana"}
        for hint in (
            [workspace, question.id],
            [workspace, question.id, outcome],
            {"workspace": workspace, "id": question.id, "outcome": outcome},
        ):
            await client.publish(f"{subject}.settled.{token_of(workspace)}", json.dumps(hint).encode())
        await client.flush()
        with pytest.raises(StillPending):
            await asker.wait(question.id, timeout=0.2)
        assert not waiting.done()
        await person.answer(question.id, "genuine", by="ana")
        outcome_heard = await waiting
        assert isinstance(outcome_heard, Answered)
        assert outcome_heard.value == "genuine"


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x00\xff\xfe",
        b"[" * 50_000,
        b'["w"',
        b"[]",
        b'["w"]',
        b"null",
        b'{"a": 1}',
        b'["w", 1]',
        b"1" * 5_000,
        b'["w", "' + b"x" * 500_000 + b'"]',
    ],
)
async def test_junk_is_passed_over_and_stirs_nobody(nats: str, junk: bytes) -> None:
    listener = RecordingListener()
    async with (
        open_nats(nats) as here,
        open_nats(nats) as there,
        there.listen(listener, feeds=True),
        stranger(nats) as (client, subject),
    ):
        gaps = listener.gaps
        for _ in range(10):
            await client.publish(f"{subject}.settled.x", junk)
            await client.publish(f"{subject}.feed.x", junk)
        await client.flush()
        await here.wake([SETTLED])
        await listener.hears(SETTLED)
        assert (listener.topics, listener.gaps) == ({SETTLED}, gaps)


@pytest.mark.slow("measures memory and time")
async def test_a_flood_neither_grows_memory_nor_holds_the_loop_nor_has_everything_read_again_and_again(
    nats: str,
) -> None:
    gaps, longest, told = 0, 0.0, asyncio.Event()

    def heard(topics: Collection[Ref] | None) -> None:
        nonlocal gaps
        gaps += topics is None
        if topics is not None and SETTLED in topics:
            told.set()

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    async with open_nats(nats) as here, open_nats(nats) as there, there.listen(heard):
        gaps, began = 0, time.monotonic()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        watching = asyncio.create_task(watch())
        place = NatsAddress.parse(nats)
        flooding = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FLOODING, place.servers[0], f"{place.subject}.settled.x")
        )
        assert await flooding.wait() == 0
        async with asyncio.timeout(3 * SOON):
            while not told.is_set() or not gaps:
                await here.wake([SETTLED])
                await asyncio.sleep(0.05)
        watching.cancel()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert 1 <= gaps <= 1 + time.monotonic() - began, "what was missed must be told of, and rarely"
    assert grown < 30_000, f"{grown} kB more"
    assert longest < 0.25, f"the loop was held for {longest} s"


FLOODING = """
import socket, sys
from urllib.parse import urlsplit

place, subject = urlsplit(sys.argv[1]), sys.argv[2]
with socket.create_connection((place.hostname, place.port or 4222)) as line:
    line.sendall(b"CONNECT {\\"verbose\\": false}\\r\\n")
    hint = b'["w", "nobody waits for this"]'
    for _ in range(300):
        line.sendall(b"PUB %s %d\\r\\n%s\\r\\n" % (subject.encode(), len(hint), hint) * 1000)
    line.sendall(b"PING\\r\\n")
    while b"PONG" not in line.recv(65536):
        pass
"""


async def test_with_nats_postgresql_is_neither_listened_at_nor_notified(
    postgres: str, workspace: str, nats: str
) -> None:
    spy = await asyncpg.connect(postgres)
    notified: list[object] = []
    try:
        async with (
            open_desk(postgres, workspace=workspace, bus=nats, poll_interval=10 * SOON) as asker,
            open_desk(postgres, workspace=workspace, bus=nats) as person,
        ):
            await spy.execute("delete from handraise.listeners")
            await spy.execute(
                "insert into handraise.listeners (process, seen_at, feeds) values ('x', now(), true)"
            )
            await spy.add_listener("handraise", lambda *args: notified.append(args))
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            with pytest.raises(StillPending):
                await asker.wait(question.id, timeout=0.1)
            await person.answer(question.id, "a", by="ana")
            await waiting
            listening = await spy.fetch("select process from handraise.listeners")
            names = await spy.fetch(
                "select application_name from pg_stat_activity where datname = current_database()"
            )
        await spy.execute("delete from handraise.listeners")
        assert [row["process"] for row in listening] == ["x"]
        assert "handraise listener" not in {row["application_name"] for row in names}
        assert notified == []
    finally:
        await spy.close()


async def test_a_process_does_not_hear_itself(nats: str) -> None:
    own, others = RecordingListener(), RecordingListener()
    async with open_nats(nats) as here, open_nats(nats) as there, here.listen(own), there.listen(others):
        await here.wake([SETTLED])
        await others.hears(SETTLED)
        await there.wake([Ref("w", "q-2")])
        await own.hears(Ref("w", "q-2"))
    assert own.topics == {Ref("w", "q-2")}


async def test_houses_below_different_subjects_do_not_hear_each_other(nats: str) -> None:
    listener = RecordingListener()
    async with (
        open_nats(nats) as here,
        open_nats(f"{nats}.other") as other,
        open_nats(nats) as there,
        there.listen(listener, feeds=True),
    ):
        await other.wake([Ref("w", "not ours"), feed_of("w")])
        await here.wake([SETTLED])
        await listener.hears(SETTLED)
    assert listener.topics == {SETTLED}


async def test_the_bus_may_come_from_the_environment(
    postgres: str, workspace: str, nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDRAISE_BUS", nats)
    listener = RecordingListener()
    async with (
        open_nats(nats) as there,
        there.listen(listener),
        open_desk(postgres, workspace=workspace) as desk,
    ):
        question = await desk.post("Which?")
        await desk.answer(question.id, "a", by="ana")
        await listener.hears(question.ref)


@pytest.mark.parametrize(
    ("address", "servers", "subject"),
    [
        ("nats://h", ["nats://h"], "handraise"),
        ("nats://h:4222/", ["nats://h:4222"], "handraise"),
        ("nats://h:4222/our.house", ["nats://h:4222"], "our.house"),
        ("nats://me:secret@a:1,b:2", ["nats://me:secret@a:1", "nats://me:secret@b:2"], "handraise"),
        ("nats://[::1]:4222", ["nats://[::1]:4222"], "handraise"),
    ],
)
def test_an_address_names_servers_and_a_subject(address: str, servers: list[str], subject: str) -> None:
    assert NatsAddress.parse(address) == NatsAddress(servers, subject)


@pytest.mark.parametrize(
    "address",
    [
        "redis://me:secret@h",
        "nats://",
        "nats://me:secret@h/*",
        "nats://me:secret@h/a b",
        "nats://me:secret@h/a..b",
    ],
)
async def test_an_address_that_is_no_bus_is_refused_without_telling_secrets(address: str) -> None:
    with pytest.raises(UnknownAddress, match="nats://host:4222") as refused:
        async with open_desk("memory:", bus=address):
            pass
    assert "secret" not in str(refused.value)


def test_a_missing_driver_names_the_extra() -> None:
    program = """
import asyncio, sys
sys.modules["nats"] = None
import handraise
async def main():
    async with handraise.open_desk("memory:", bus="nats://127.0.0.1"):
        pass
try:
    asyncio.run(main())
except handraise.errors.MissingExtra as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert 'pip install "handraise[nats]"' in done.stdout
