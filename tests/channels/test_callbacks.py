"""Callbacks: what an asker gets and may trust, what is never called, and what becomes of one that fails."""

from __future__ import annotations

import base64
import ipaddress
import json
import random
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook as Reference

from handraise import Answered, Choice, InvalidQuestion, Question, open_desk
from handraise.callbacks import Callback, CallbackEvent, verify_callback
from handraise.channels.safe_http import open_safe_client
from handraise.channels.webhook import Webhook, open_webhook
from handraise.desk.dispatcher import Dispatcher, run_dispatcher
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import open_backend
from handraise.errors import CallbackRefused
from handraise.model.deliveries import DeliveryStatus
from handraise.model.drafting import Limits
from handraise.model.json_values import Json
from handraise.model.webhook_signatures import secret_bytes, signed
from handraise.ports import Backend
from handraise.ports.channel import NotSent
from handraise.testing import ManualClock
from handraise.testing.contract.channel import AT, a_question
from support.webhook_receiver import Receiver, Says, receiving
from tests.channels.test_webhook import LOOPBACK, NOBODY, answering, secret
from tests.tiers import sized

EVERY = ("*",)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def to(url: str, number: int = 1) -> Json:
    return {"url": url, "secret": secret(number)}


def settled(**changes: Any) -> Question:
    outcome = Answered(value="b", at=AT + timedelta(hours=1), by="ann", channel="slack")
    given: dict[str, Any] = {
        "form": Choice.of("a", "b"),
        "status": outcome.status,
        "outcome": outcome,
        "key": "k-1",
    }
    return a_question(**(given | {"state": {"mine": 1}, "context": "why"} | changes))


class TestOut:
    async def test_an_asker_gets_how_its_question_ended_signed_and_nothing_else(
        self, receiver: Receiver
    ) -> None:
        async with open_webhook(NOBODY, allowed=LOOPBACK, callback_hosts=["127.0.0.1"]) as channel:
            for _ in range(2):
                await channel.call_back(to(receiver.url), settled(), id="c-1")
        first, second = receiver.got
        assert first.body == second.body
        event = Reference(secret()).verify(first.body, first.headers)
        assert (event["id"], event["type"]) == ("c-1", "dev.handraise.question.settled")
        assert event["data"] == {
            "question": {
                "id": "q-1",
                "workspace": "w",
                "asker": event["data"]["question"]["asker"],
                "key": "k-1",
                "conversation": None,
                "tool_call": None,
                "status": "answered",
                "outcome": event["data"]["question"]["outcome"],
            }
        }
        for each in (first, second):
            assert verify_callback(each.headers, each.body, secret=secret()) == CallbackEvent(
                id="c-1",
                question_id="q-1",
                workspace="w",
                asker=settled().asker,
                key="k-1",
                conversation=None,
                tool_call=None,
                outcome=Answered(value="b", at=AT + timedelta(hours=1), by="ann", channel="slack"),
            )

    @pytest.mark.parametrize("hosts", [(), ("agent.example",)])
    async def test_a_host_that_the_operator_does_not_name_is_not_called_not_even_later(
        self, receiver: Receiver, hosts: Sequence[str]
    ) -> None:
        async with open_webhook(NOBODY, allowed=LOOPBACK, callback_hosts=hosts) as channel:
            assert "HANDRAISE_CALLBACK_HOSTS" in (
                channel.callback_problem(Callback(receiver.url, secret())) or ""
            )
            with pytest.raises(NotSent) as failed:
                await channel.call_back(to(receiver.url), settled(), id="c-1")
        assert failed.value.again  # by a server that has the settings of the one that accepted the question
        assert receiver.connections == 0

    async def test_a_host_is_named_as_it_is_written_in_the_url(self) -> None:
        """In ASCII: a name with other letters is `xn--…` in both."""
        async with open_webhook(NOBODY, callback_hosts=["xn--bcher-kva.example"]) as channel:
            for url in ("https://xn--bcher-kva.example/a", "https://XN--BCHER-KVA.example:8443"):
                assert channel.callback_problem(Callback(url, secret())) is None

    @pytest.mark.parametrize(
        "url",
        [
            "https://Agent.example/a?b=c",
            "https://agent.example:8443",
            "https://agent.example?x",
            "http://127.0.0.1:80/",
            "https://[2606:4700:4700::1111]/",
            "https://93.184.216.34:1/",
        ],
    )
    async def test_a_callback_waits_in_a_queue_of_its_host_apart_from_messages_to_people(
        self, url: str
    ) -> None:
        async with open_backend("memory:") as ports, open_webhook(NOBODY, allowed=LOOPBACK) as channel:
            engine = Engine(ports.store, ports.bus)
            sender = Webhook(NOBODY, None, LOOPBACK, callback_hosts=EVERY)  # type: ignore[arg-type]  # nothing is sent
            engine.callback_senders = {sender.name: sender}
            question = await desk_on(engine).post("Go?", callback=Callback(url, secret()))
            (waiting,) = await ports.outbox.deliveries(question.ref)
            assert f"webhook {waiting.rate_limit_key.removeprefix('callback ')}" == channel.rate_limit_key(
                to(url)
            )
            await engine.close()


class TestNeverCalled:
    """A canary listens where nothing may be sent: whatever is tried, nobody ever connects to it."""

    @pytest.fixture
    async def canary(self) -> AsyncIterator[Receiver]:
        async with receiving() as canary:
            yield canary
        assert canary.connections == 0

    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"]
    )
    @pytest.mark.parametrize("scheme", ["https", "http"])
    async def test_an_address_of_a_private_network_is_refused_when_it_is_posted(
        self, canary: Receiver, scheme: str, host: str
    ) -> None:
        async with open_webhook(NOBODY, callback_hosts=EVERY) as channel:
            assert channel.callback_problem(Callback(f"{scheme}://{host}:{canary.port}/", secret()))
        async with open_webhook(
            NOBODY, allowed=(ipaddress.ip_network("192.0.2.0/24"),), callback_hosts=EVERY
        ) as channel:
            assert channel.callback_problem(Callback(f"{scheme}://{host}:{canary.port}/", secret()))

    @pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f000001", "127.1", "127.0.0.1."])
    async def test_names_of_this_machine(self, canary: Receiver, host: str) -> None:
        async with open_webhook(NOBODY, callback_hosts=EVERY) as channel:
            with pytest.raises(NotSent):
                await channel.call_back(to(f"https://{host}:{canary.port}/"), settled(), id="c-1")

    @pytest.mark.parametrize("leads", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::1"]], ids=str)
    async def test_a_name_that_leads_to_this_machine(self, canary: Receiver, leads: list[str]) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            del host, port
            return leads

        async with open_safe_client(resolve=resolve) as outward:
            channel = Webhook(NOBODY, outward, (), callback_hosts=EVERY)
            url = f"https://public.example:{canary.port}/"
            assert channel.callback_problem(Callback(url, secret())) is None
            with pytest.raises(NotSent, match="must not be called"):
                await channel.call_back(to(url), settled(), id="c-1")

    async def test_where_a_redirect_and_a_second_look_lead(self, canary: Receiver) -> None:
        looks: list[str] = []

        async def resolve(host: str, port: int) -> Sequence[str]:
            del port
            looks.append(host)
            return ["127.0.0.2"] if len(looks) == 1 else ["127.0.0.1"]

        allowed = (ipaddress.ip_network("127.0.0.2/32"),)
        async with (
            receiving(host="127.0.0.2", port=canary.port) as public,
            open_safe_client(allowed, resolve=resolve) as outward,
        ):
            public.answer = answering(
                Says(302, {"location": f"http://127.0.0.1:{canary.port}/", "connection": "close"})
            )
            channel = Webhook(NOBODY, outward, allowed, callback_hosts=EVERY)
            for _ in range(3):
                with pytest.raises(NotSent):
                    await channel.call_back(
                        to(f"http://rebinding.example:{canary.port}/"), settled(), id="c-1"
                    )
            assert len(public.got) == 1


def desk_on(engine: Engine) -> LocalDesk:
    return LocalDesk(engine, workspace="w", asker="bot", new_id=uuid7_ids(), limits=Limits())


class TestDelivery:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def ports(self, clock: ManualClock) -> AsyncIterator[Backend]:
        async with open_backend("memory:", clock=clock) as ports:
            yield ports

    @pytest.fixture
    async def engine(self, ports: Backend) -> AsyncIterator[Engine]:
        engine = Engine(ports.store, ports.bus)
        yield engine
        await engine.close()

    @pytest.fixture
    async def dispatcher(self, ports: Backend, engine: Engine) -> AsyncIterator[Dispatcher]:
        async with open_webhook(NOBODY, allowed=LOOPBACK, callback_hosts=EVERY) as channel:
            engine.callback_senders = {channel.name: channel}
            yield Dispatcher(engine, ports.outbox, ports.directory, [channel], link_to=no_link)

    @pytest.fixture
    def desk(self, engine: Engine) -> LocalDesk:
        return desk_on(engine)

    async def test_one_that_fails_is_tried_for_days_with_the_same_id_and_then_has_failed(
        self, dispatcher: Dispatcher, desk: LocalDesk, ports: Backend, clock: ManualClock, receiver: Receiver
    ) -> None:
        receiver.answer = answering(Says(500))
        question = await desk.post("Go?", callback=Callback(receiver.url, secret()))
        await desk.answer(question.id, "yes", by="ann")
        await dispatch(dispatcher)
        (found,) = await ports.outbox.deliveries(question.ref)
        while found.due_at is not None:
            assert found.status is DeliveryStatus.WAITING
            clock.advance(found.due_at - clock.now())
            await dispatch(dispatcher)
            (found,) = await ports.outbox.deliveries(question.ref)
        assert found.status is DeliveryStatus.FAILED
        assert len(receiver.got) > 50
        assert len({got.headers["webhook-id"] for got in receiver.got}) == 1
        assert len({got.body for got in receiver.got}) == 1

    async def test_one_that_is_gone_is_not_tried_again(
        self, dispatcher: Dispatcher, desk: LocalDesk, ports: Backend, receiver: Receiver
    ) -> None:
        receiver.answer = answering(Says(410))
        question = await desk.post("Go?", callback=Callback(receiver.url, secret()))
        await desk.withdraw(question.id)
        await dispatch(dispatcher)
        (found,) = await ports.outbox.deliveries(question.ref)
        assert (found.status, found.due_at) == (DeliveryStatus.FAILED, None)

    async def test_an_asker_is_called_once_even_if_it_reports_what_came_of_the_answer(
        self, dispatcher: Dispatcher, desk: LocalDesk, ports: Backend, receiver: Receiver
    ) -> None:
        question = await desk.post("Go?", callback=Callback(receiver.url, secret()))
        await dispatch(dispatcher)
        assert receiver.got == []
        await desk.answer(question.id, "yes", by="ann")
        await dispatch(dispatcher)
        await desk.report(question.id, ok=True, text="done")
        for _ in range(3):
            await dispatch(dispatcher)
        [got] = receiver.got
        event = verify_callback(got.headers, got.body, secret=secret())
        assert (event.question_id, event.outcome) == (question.id, (await desk.get(question.id)).outcome)
        (found,) = await ports.outbox.deliveries(question.ref)
        assert (found.status, found.due_at) == (DeliveryStatus.UPDATED, None)

    async def test_a_desk_calls_back_while_a_dispatcher_runs_and_else_says_what_to_do(
        self, ports: Backend, engine: Engine, receiver: Receiver
    ) -> None:
        desk, callback = desk_on(engine), Callback(receiver.url, secret())
        async with (
            open_webhook(NOBODY, allowed=LOOPBACK, callback_hosts=EVERY) as channel,
            run_dispatcher(engine, ports.outbox, ports.directory, [channel], link_to=no_link),
        ):
            await desk.post("Go?", callback=callback)
        with pytest.raises(InvalidQuestion, match="HANDRAISE_CALLBACK_HOSTS"):
            await desk.post("Go?", callback=callback)

    async def test_a_question_that_was_posted_before_is_found_wherever_its_callback_may_be_made_now(
        self, engine: Engine, dispatcher: Dispatcher, desk: LocalDesk, receiver: Receiver
    ) -> None:
        del dispatcher
        callback = Callback(receiver.url, secret())
        first = await desk.post("Stay?", key="k", callback=callback)
        engine.callback_senders = {}
        assert (await desk.post("Stay?", key="k", callback=callback)).id == first.id
        with pytest.raises(InvalidQuestion, match="callback"):
            await desk.post("Go?", key="other", callback=callback)

    async def test_only_the_channel_that_gets_callbacks_is_asked_about_them(
        self, ports: Backend, engine: Engine
    ) -> None:
        class Pager(Webhook):
            name = "pager"

        async with open_safe_client(LOOPBACK) as outward:
            other = Pager(NOBODY, outward, LOOPBACK, callback_hosts=EVERY)
            async with run_dispatcher(engine, ports.outbox, ports.directory, [other], link_to=no_link):
                with pytest.raises(InvalidQuestion, match="HANDRAISE_CALLBACK_HOSTS"):
                    await desk_on(engine).post("Go?", callback=Callback("https://agent.example/", secret()))


async def no_link(delivery: object) -> str:
    del delivery
    return "http://desk.example"


async def dispatch(dispatcher: Dispatcher) -> None:
    await dispatcher.work()
    await dispatcher.work()
    await dispatcher.finish()


async def test_a_desk_of_a_program_refuses_a_callback_that_nobody_would_make() -> None:
    async with open_desk("memory:") as desk:
        with pytest.raises(InvalidQuestion, match="post it through a server"):
            await desk.post("Go?", callback=Callback("https://agent.example/", secret()))
        assert not (await desk.list_pending()).items


LONG = "https://agent.example/" + "x" * 2_000


@pytest.mark.parametrize(
    "callback",
    [
        Callback("ftp://agent.example/", secret()),
        Callback("https://user:pw@agent.example/", secret()),
        Callback("https://user@agent.example/", secret()),
        Callback("https://agent.example/#x", secret()),
        Callback("https://agent.example\\@evil.example/", secret()),
        Callback("https://agent.example/\\x", secret()),
        Callback("https://agent.example/a b", secret()),
        Callback("https://agent.example/\r\nx: y", secret()),
        Callback("https://agent.example\n", secret()),
        Callback("https://ägent.example/", secret()),
        Callback("https://agent.example/ä", secret()),
        Callback("https://agent.example:0/", secret()),
        Callback("https://agent.example:65536/", secret()),
        Callback("https:///x", secret()),
        Callback("//agent.example/", secret()),
        Callback("", secret()),
        Callback(LONG, secret()),
        Callback(b"https://agent.example/", secret()),  # type: ignore[arg-type]
        Callback("https://agent.example/", "whsec_"),
        Callback("https://agent.example/", "whsec_" + base64.b64encode(b"x" * 23).decode()),
        Callback("https://agent.example/", "whsec_" + base64.b64encode(b"x" * 65).decode()),
        Callback("https://agent.example/", secret().removeprefix("whsec_")),
        Callback("https://agent.example/", secret() + "\r\nx: y"),
        Callback("https://agent.example/", None),  # type: ignore[arg-type]
        {"url": "https://agent.example/", "secret": secret()},
        "https://agent.example/",
    ],
    ids=repr,
)
async def test_a_callback_that_makes_no_sense_is_refused_without_showing_it(callback: Any) -> None:
    async with open_desk("memory:") as desk:
        with pytest.raises(InvalidQuestion) as refused:
            await desk.post("Go?", callback=callback)
        assert {each.path.partition(".")[0] for each in refused.value.problems} == {"callback"}
        assert "post it through a server" not in str(refused.value)
        assert secret()[6:] not in repr(refused.value) + str(refused.value)


def test_nothing_that_is_printed_shows_a_callback() -> None:
    assert repr(Callback(LONG, secret())) == "Callback()"


async def test_askers_that_share_a_question_cannot_be_called_back() -> None:
    async with open_desk("memory:") as desk:
        with pytest.raises(InvalidQuestion, match="only the first"):
            await desk.post(
                "Go?", key="k", shared=True, callback=Callback("https://agent.example/", secret())
            )


class TestVerify:
    NOW = 1_700_000_000.0

    def body(self, **changes: Any) -> bytes:
        outcome = {"status": "answered", "at": AT.isoformat(), "by": "ann", "value": "b", "source": "person"}
        question = {"id": "q-1", "workspace": "w", "asker": "bot", "status": "answered", "outcome": outcome}
        event = {"id": "c-1", "type": "dev.handraise.question.settled", "data": {"question": question}}
        return json.dumps(event | changes).encode()

    def headers(self, body: bytes, number: int = 1, *, name: str = "c-1", age: float = 0) -> dict[str, str]:
        raw = secret_bytes(secret(number))
        assert raw is not None
        return signed(name, body, [raw], now=self.NOW - age)

    def test_one_that_is_genuine_counts_whatever_the_case_of_its_headers(self) -> None:
        given = {name.title(): value for name, value in self.headers(self.body()).items()}
        event = verify_callback(given, self.body(), secret=secret(), now=self.NOW)
        assert (event.question_id, str(event.outcome)) == ("q-1", "answered 'b' by ann")
        assert "'b'" not in repr(event)

    def test_while_a_secret_is_changed_both_are_good(self) -> None:
        for number in (1, 2):
            given = self.headers(self.body(), number)
            both = [secret(1), secret(2)]
            assert verify_callback(given, self.body(), secret=both, now=self.NOW).id == "c-1"

    @pytest.mark.parametrize("age", [301, -301, 86_400])
    def test_one_that_somebody_kept_is_refused(self, age: float) -> None:
        with pytest.raises(CallbackRefused, match="five minutes"):
            verify_callback(self.headers(self.body(), age=age), self.body(), secret=secret(), now=self.NOW)

    def test_one_that_is_kept_with_a_new_time_or_id_is_refused(self) -> None:
        kept = self.headers(self.body(), age=1_000)
        for change in (
            {"webhook-timestamp": str(int(self.NOW))},
            {"webhook-timestamp": str(int(self.NOW)), "webhook-id": "c-2"},
        ):
            with pytest.raises(CallbackRefused, match="not signed"):
                verify_callback(kept | change, self.body(), secret=secret(), now=self.NOW)

    def test_a_repeat_within_the_window_has_the_same_id(self) -> None:
        first = verify_callback(
            self.headers(self.body(), age=200), self.body(), secret=secret(), now=self.NOW
        )
        again = verify_callback(self.headers(self.body()), self.body(), secret=secret(), now=self.NOW)
        assert first == again

    def test_one_of_another_secret_or_without_a_signature_is_refused(self) -> None:
        forged = self.headers(self.body(), 2)
        for given in (forged, {}, forged | {"webhook-signature": ""}, forged | {"webhook-signature": "v1,"}):
            with pytest.raises(CallbackRefused):
                verify_callback(given, self.body(), secret=secret(), now=self.NOW)

    def test_of_a_thousand_that_were_altered_none_is_believed(self) -> None:
        rng = random.Random(20)
        body = self.body()
        for _ in range(sized(gate=300, nightly=3_000)):
            changed = bytearray(body)
            changed[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            with pytest.raises(CallbackRefused):
                verify_callback(self.headers(body), bytes(changed), secret=secret(), now=self.NOW)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"[]",
            b"{" * 10_000,
            b"\xff",
            b'{"id": "c-1", "type": "dev.handraise.question.settled", "data": {"question": {}}}',
        ],
    )
    def test_one_that_is_genuine_and_makes_no_sense_is_refused(self, body: bytes) -> None:
        with pytest.raises(CallbackRefused, match="how a question ended"):
            verify_callback(self.headers(body), body, secret=secret(), now=self.NOW)

    def test_one_about_something_else_is_refused(self) -> None:
        asked = self.body(type="dev.handraise.question.asked")
        with pytest.raises(CallbackRefused, match="how a question ended"):
            verify_callback(self.headers(asked), asked, secret=secret(), now=self.NOW)
        other = self.body(id="c-2")
        with pytest.raises(CallbackRefused, match="another id"):
            verify_callback(self.headers(other), other, secret=secret(), now=self.NOW)

    @pytest.mark.parametrize("mine", ["", "whsec_", "secret", []])
    def test_a_program_without_a_secret_of_its_own_believes_nobody(self, mine: Any) -> None:
        with pytest.raises(ValueError, match="whsec_"):
            verify_callback(self.headers(self.body()), self.body(), secret=mine, now=self.NOW)

    def test_the_clock_counts_if_nothing_else_is_said(self) -> None:
        raw = secret_bytes(secret())
        assert raw is not None
        given = signed("c-1", self.body(), [raw], now=time.time())
        assert verify_callback(given, self.body(), secret=secret()).id == "c-1"
