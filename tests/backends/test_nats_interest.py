"""Hints over NATS go only to processes in which somebody needs them, and a wait that begins late misses nothing."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError

from chaos.servers import Program
from handraise import Answered, Desk, StillPending, open_desk
from handraise.backends.nats import bus as nats_bus
from handraise.backends.nats import listener as nats_listener
from handraise.backends.nats.bus import NatsAddress, open_nats
from handraise.backends.nats.listener import token_of
from handraise.ports import HintHandler, Interest, feed_of
from handraise.questions import Ref
from handraise.testing.contract.bus import RecordingListener

SOON = 10.0
NEVER = 10 * SOON
LINGER = 0.3


def nothing() -> None:
    """For those who hear of it in another way."""


class Subscribed:
    """Asks a NATS whether anybody subscribes to the hints of a workspace."""

    def __init__(self, client: Client, subject: str) -> None:
        self._client = client
        self._subject = subject

    async def __call__(self, workspace: str, kind: str = "settled") -> bool:
        try:
            await self._client.request(f"{self._subject}.{kind}.{token_of(workspace)}", b"", timeout=0.05)
        except NoRespondersError:
            return False
        except TimeoutError:  # a hint has no reply
            return True
        raise AssertionError("a hint was replied to")


@asynccontextmanager
async def asking(address: str) -> AsyncIterator[Subscribed]:
    place, client = NatsAddress.parse(address), Client()
    await client.connect(place.servers[0])
    try:
        yield Subscribed(client, place.subject)
    finally:
        await client.close()


async def test_a_process_hears_of_its_own_workspaces_and_of_no_others(nats: str) -> None:
    listener, interest = RecordingListener(), Interest()
    interest.add("mine", nothing)
    async with (
        open_nats(nats) as here,
        open_nats(nats) as there,
        there.listen(listener, feeds=True, interest=interest),
    ):
        theirs = [Ref(f"theirs {n}", "q") for n in range(50)]
        await here.wake([*theirs, *(feed_of(each.workspace) for each in theirs)])
        await here.wake([Ref("mine", "q"), feed_of("mine")])
        await listener.hears(Ref("mine", "q"), feed_of("mine"))
    assert listener.topics == {Ref("mine", "q"), feed_of("mine")}


async def test_a_workspace_that_is_added_later_is_heard_of_once_it_is_ready(nats: str) -> None:
    listener, interest = RecordingListener(), Interest()
    async with (
        open_nats(nats) as here,
        open_nats(nats) as there,
        there.listen(listener, interest=interest),
        asyncio.timeout(SOON),
    ):
        for n in range(20):
            ready, topic = asyncio.Event(), Ref(f"w {n}", "q")
            interest.add(topic.workspace, ready.set)
            await ready.wait()
            await here.wake([topic])
            await listener.hears(topic)
        again = asyncio.Event()
        interest.add("w 0", again.set)
        assert not again.is_set(), "its hints arrived already"


async def test_what_is_not_needed_any_more_is_unsubscribed_later_and_not_at_once(
    nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_listener, "_LINGER", LINGER)
    listener, interest = RecordingListener(), Interest()
    for workspace in ("stays", "stays", "goes"):
        interest.add(workspace, nothing)
    async with (
        open_nats(nats) as there,
        there.listen(listener, feeds=True, interest=interest),
        asking(nats) as subscribed,
        asyncio.timeout(SOON),
    ):
        await asyncio.sleep(LINGER / 2)  # soon it is looked what is not needed
        began = time.monotonic()
        interest.discard("goes")
        interest.discard("stays")  # as often as it was added, and only then is it not needed
        assert await subscribed("goes")
        assert await subscribed("goes", "feed")
        for kind in ("settled", "feed"):
            while await subscribed("goes", kind):
                pass
        assert time.monotonic() - began >= LINGER
        assert await subscribed("stays")
        ready = asyncio.Event()
        interest.add("goes", ready.set)
        await ready.wait()
        assert await subscribed("goes")
    async with asking(nats) as subscribed:
        assert not await subscribed("stays"), "with the listener, everything ends"


async def test_subscriptions_are_bounded_by_taking_all_hints_and_few_again_later(
    nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_listener, "_LINGER", 0.1)
    monkeypatch.setattr(nats_listener, "_MOST", 4)
    listener, interest = RecordingListener(), Interest()
    async with (
        open_nats(nats) as here,
        open_nats(nats) as there,
        there.listen(listener, interest=interest),
        asking(nats) as subscribed,
        asyncio.timeout(SOON),
    ):
        for n in range(4):
            interest.add(f"w {n}", nothing)
        while not await subscribed("w 3"):
            pass
        assert not await subscribed("anything"), "four are few"
        ready = asyncio.Event()
        interest.add("w 4", ready.set)
        await ready.wait()
        assert await subscribed("anything"), "five are many"
        await here.wake([Ref(f"w {n}", "q") for n in range(5)])
        await listener.hears(*(Ref(f"w {n}", "q") for n in range(5)))
        for n in range(1, 5):
            interest.discard(f"w {n}")
        while await subscribed("anything"):
            pass
        assert await subscribed("w 0")
        await here.wake([Ref("w 0", "still heard")])
        await listener.hears(Ref("w 0", "still heard"))


async def test_a_new_connection_has_the_same_subscriptions(nats_server: Program) -> None:
    listener, interest = RecordingListener(), Interest()
    interest.add("before", nothing)
    async with (
        open_nats(nats_server.address) as here,
        open_nats(nats_server.address) as there,
        there.listen(listener, interest=interest),
        asyncio.timeout(2 * SOON),
    ):
        interest.add("later", nothing)
        nats_server.kill()
        interest.add("meanwhile", nothing)
        nats_server.start()
        await listener.hears_of_a_gap()
        expected = {Ref(each, "q") for each in ("before", "later", "meanwhile")}
        while not listener.topics.issuperset(expected):
            await here.wake([*expected, Ref("nobody's", "q")])
            await asyncio.sleep(0.05)
        assert listener.topics == expected


async def test_a_subscription_that_is_not_confirmed_in_time_is_tried_on_another_connection(
    nats_server: Program, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "_PING", 600)  # nothing else notices first that the server is silent
    listener, interest, ready = RecordingListener(), Interest(), asyncio.Event()
    async with (
        open_nats(nats_server.address) as here,
        open_nats(nats_server.address) as there,
        there.listen(listener, interest=interest),
        asyncio.timeout(4 * SOON),
    ):
        nats_server.signal(signal.SIGSTOP)
        interest.add("w", ready.set)
        while "does not confirm" not in caplog.text:
            await asyncio.sleep(0.1)
        assert not ready.is_set()
        nats_server.signal(signal.SIGCONT)
        await listener.hears_of_a_gap()
        await here.wake([Ref("w", "q")])
        await listener.hears(Ref("w", "q"))


async def test_a_shared_hint_about_a_feed_goes_to_one_process_and_not_to_the_one_that_sent_it(
    nats: str,
) -> None:
    received: list[tuple[str, Ref]] = []

    def recorder(name: str) -> HintHandler:
        return lambda topics: received.extend((name, topic) for topic in topics or ())

    feeds = [feed_of(f"w {n}") for n in range(40)]
    async with (
        open_nats(nats) as here,
        open_nats(nats) as one,
        open_nats(nats) as other,
        here.listen(recorder("here"), shared_feeds=True, interest=Interest()),
        one.listen(recorder("one"), shared_feeds=True, interest=Interest()),
        other.listen(recorder("other"), shared_feeds=True, interest=Interest()),
        asyncio.timeout(SOON),
    ):
        for feed in feeds:
            await here.wake([feed])
        while len(received) < len(feeds):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # anything that is too much
    assert sorted(topic for _, topic in received) == sorted(feeds)
    assert {name for name, _ in received} == {"one", "other"}


class Gate:
    """Holds subscriptions back until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        subscribe = Client.subscribe

        async def held(client: Client, *args: Any, **named: Any) -> Subscription:
            self.reached.set()
            await self.opened.wait()
            return await subscribe(client, *args, **named)

        monkeypatch.setattr(Client, "subscribe", held)


@asynccontextmanager
async def two_desks(postgres: str, workspace: str, nats: str) -> AsyncIterator[tuple[Desk, Desk]]:
    """An agent's and a person's process; the agent's listens, and finds out nothing by polling."""
    async with (
        open_desk(postgres, workspace=workspace, bus=nats, poll_interval=NEVER) as asker,
        open_desk(postgres, workspace=workspace, bus=nats) as person,
    ):
        first = await asker.post("First?")
        waiting = asyncio.create_task(asker.wait(first.id, timeout=SOON))
        await pending(asker, first.id)
        await person.answer(first.id, "a", by="ana")
        await waiting
        yield asker, person


async def pending(desk: Desk, question_id: str) -> None:
    with pytest.raises(StillPending):
        await desk.wait(question_id, timeout=0.1)


async def test_an_answer_before_the_subscription_is_ready_is_not_missed(
    postgres: str, workspace: str, nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_desks(postgres, workspace, nats) as (asker, person), asyncio.timeout(SOON):
        gate = Gate(monkeypatch)
        elsewhere, there = asker.scoped(f"{workspace}-2"), person.scoped(f"{workspace}-2")
        question = await elsewhere.post("Which?")
        waiting = asyncio.create_task(elsewhere.wait(question.id))
        await gate.reached.wait()
        await pending(elsewhere, question.id)
        await there.answer(question.id, "a", by="ana")
        gate.opened.set()
        assert isinstance(await waiting, Answered)


async def test_an_event_before_the_subscription_is_ready_is_not_missed(
    postgres: str, workspace: str, nats: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_desks(postgres, workspace, nats) as (asker, person), asyncio.timeout(SOON):
        other = asker.scoped(f"{workspace}-2").follow()
        following = asyncio.create_task(anext(other))
        while not following.done():  # both feeds and their subscriptions are now set up
            await person.scoped(f"{workspace}-2").post("Which?")
            await asyncio.sleep(0.05)
        gate = Gate(monkeypatch)
        feed = asker.scoped(f"{workspace}-3").follow()
        late = asyncio.create_task(anext(feed))
        await gate.reached.wait()
        await asyncio.sleep(0.1)  # the end of the feed is read
        question = await person.scoped(f"{workspace}-3").post("Which?")
        gate.opened.set()
        assert (await late).question_id == question.id
        await other.aclose()
        await feed.aclose()


async def test_waits_that_begin_in_new_workspaces_while_they_are_answered_all_end(
    postgres: str, workspace: str, nats: str
) -> None:
    async with two_desks(postgres, workspace, nats) as (asker, person), asyncio.timeout(3 * SOON):

        async def race(n: int) -> None:
            name = f"{workspace}-{n}"
            question = await asker.scoped(name).post("Which?")
            waiting = asyncio.create_task(asker.scoped(name).wait(question.id))
            await asyncio.sleep(0.001 * (n % 10))
            await person.scoped(name).answer(question.id, "a", by="ana")
            assert isinstance(await waiting, Answered)

        for start in range(0, 100, 20):
            await asyncio.gather(*map(race, range(start, start + 20)))


async def test_a_listener_that_has_ended_is_not_subscribed_by_a_connection_that_comes_late(
    nats: str,
) -> None:
    address = NatsAddress.parse(nats)
    heard: list[object] = []
    client = Client()
    await client.connect(address.servers[0])
    try:
        ended = nats_listener.NatsListener(
            address.subject,
            heard.append,
            feeds=True,
            shared_feeds=False,
            interest=None,
            give_up=lambda _: None,
        )
        await ended.close()
        await ended.subscribe(client)
        async with open_nats(nats) as bus:
            await bus.wake([Ref("acme", "q-1"), feed_of("acme")])
            await asyncio.sleep(0.2)
    finally:
        await client.close()
    assert heard == []
