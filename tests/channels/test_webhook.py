"""Webhooks, out and in: what a receiver gets, what is never called, and whose answers count."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook as Reference

from handraise import Answered, Choice, Confirm
from handraise.channels.inbound_replies import Replies
from handraise.channels.safe_http import open_safe_client, public_address, read_url
from handraise.channels.webhook import Webhook, open_webhook
from handraise.model.json_values import Json
from handraise.ports.channel import Channel, Message, Notice, NotSent
from handraise.questions import Attachment
from handraise.testing.contract.channel import AT, ChannelContract, Peer, Received, a_question, link_to
from support.webhook_receiver import Got, Receiver, Says, receiving
from tests.certificates import certificate, presenting

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
WITHIN = 10.0


def secret(number: int = 1) -> str:
    return "whsec_" + base64.b64encode(bytes([number]) * 32).decode()


NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def channel() -> AsyncIterator[Webhook]:
    async with open_webhook(NOBODY, allowed=LOOPBACK) as channel:
        yield channel


def message(to: Json, **changes: Any) -> Message:
    question = a_question(**changes)
    notice = Notice(delivery_id="d-1", question=question, reason="asked", link=link_to(question))
    return Message(
        id="d-1", workspace="w", channel="webhook", recipient="ann", to=to, at=AT, notices=[notice]
    )


class TestContract(ChannelContract):
    reports = True

    @pytest.fixture
    async def channel(self) -> AsyncIterator[Channel]:
        async with open_webhook(NOBODY, allowed=LOOPBACK) as channel:
            yield channel

    @pytest.fixture
    def peer(self, receiver: Receiver) -> Peer:
        class Checking:
            def received(self) -> Sequence[Received]:
                return [checked(got) for got in receiver.got]

        return Checking()

    @pytest.fixture
    def to(self, receiver: Receiver) -> Json:
        return {"url": receiver.url, "secret": secret()}

    @pytest.fixture
    def dead(self) -> Json:
        return {"url": "https://127.0.0.1:9/", "secret": secret()}


def checked(got: Got) -> Received:
    """What came, once the reference library and the rules of CloudEvents have let it pass."""
    Reference(secret()).verify(got.body, got.headers)
    content = json.loads(got.body)
    kind = got.headers["content-type"].partition(";")[0]
    events = content if kind == "application/cloudevents-batch+json" else [content]
    if events is not content:
        assert kind == "application/cloudevents+json"
        assert content["id"] in (got.headers["webhook-id"], "q-1-delivery")
    for event in events:
        assert {"id", "source", "type", "specversion"} <= event.keys()
        assert event["specversion"] == "1.0"
        assert all(name.isalnum() and name == name.lower() for name in event)
        assert datetime.fromisoformat(event["time"]).tzinfo is not None
    text = json.dumps(content, ensure_ascii=True)
    # Whoever looks at it sees text that was escaped; whoever parses it gets what was asked, to the letter.
    assert got.body.isascii()
    return Received(got.headers["webhook-id"].encode() + got.body, text.replace("\\\\n", "\n"))


class TestOut:
    async def test_files_are_described_with_an_address_for_the_api_and_without_their_bytes(
        self, receiver: Receiver
    ) -> None:
        to: Json = {"url": receiver.url, "secret": secret()}
        file = Attachment("report.pdf", "application/pdf", 12, "a" * 64)
        replies = Replies(None, None, None, base_url="https://desk.example")  # type: ignore[arg-type]  # nothing comes in
        async with open_webhook(replies, allowed=LOOPBACK) as channel:
            await channel.send(message(to, form=Confirm(), attachments=(file,)))
        event = json.loads(receiver.got[0].body)
        assert event["data"]["question"]["attachments"] == [
            {
                "name": "report.pdf",
                "media_type": "application/pdf",
                "size": 12,
                "digest": "a" * 64,
                "url": f"https://desk.example/v1/questions/q-1/files/{'a' * 64}",
            }
        ]

    async def test_a_receiver_gets_a_signed_cloud_event(self, channel: Webhook, receiver: Receiver) -> None:
        to: Json = {"url": receiver.url, "secret": secret()}
        question = {"form": Choice.of("a", "b"), "state": {"mine": 1}, "context": {"why": "«»"}}
        assert await channel.send(message(to, **question)) == {"status": 204}
        [got] = receiver.got
        assert got.line == "POST /hook?from=handraise HTTP/1.1"
        assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
        assert got.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
        event = Reference(secret()).verify(got.body, got.headers)
        data = event.pop("data")
        assert event == {
            "specversion": "1.0",
            "id": "d-1",
            "source": "urn:handraise:workspace:w",
            "type": "dev.handraise.question.asked",
            "subject": "q-1",
            "time": AT.isoformat(),
            "datacontenttype": "application/json",
        }
        assert data["link"] == "https://desk.example/questions/q-1"
        assert data["recipient"] == "ann"
        assert data["question"]["prompt"] == "Which strategy for 1.2.3?"
        assert data["question"]["context"] == {"why": "«»"}
        assert "state" not in data["question"]
        assert "mine" not in got.body.decode()

    async def test_the_end_is_another_event_with_what_was_answered(
        self, channel: Webhook, receiver: Receiver
    ) -> None:
        to: Json = {"url": receiver.url, "secret": secret()}
        outcome = Answered(value="b", at=AT + timedelta(hours=1), by="ann", channel="slack")
        ended = message(to, form=Choice.of("a", "b"), status=outcome.status, outcome=outcome)
        await channel.update(ended, {"status": 204})
        [got] = receiver.got
        assert got.headers["webhook-id"] == "d-1-settled"
        event = Reference(secret()).verify(got.body, got.headers)
        assert (event["id"], event["type"]) == ("d-1-settled", "dev.handraise.question.settled")
        assert event["time"] == (AT + timedelta(hours=1)).isoformat()
        question = event["data"]["question"]
        assert (question["status"], question["outcome"]["value"]) == ("answered", "b")

    async def test_while_a_secret_is_changed_both_are_good(
        self, channel: Webhook, receiver: Receiver
    ) -> None:
        await channel.send(message({"url": receiver.url, "secret": secret(2), "previous_secret": secret(1)}))
        [got] = receiver.got
        assert got.headers["webhook-signature"].count("v1,") == 2
        for each in (secret(1), secret(2)):
            Reference(each).verify(got.body, got.headers)
        with pytest.raises(Exception, match="No matching"):
            Reference(secret(3)).verify(got.body, got.headers)

    async def test_another_secret_is_the_same_place_and_another_url_is_not(self, channel: Webhook) -> None:
        one = {"url": "https://example.com/a", "secret": secret(1)}
        same = {"url": "https://EXAMPLE.com:443/a", "secret": secret(2), "previous_secret": secret(1)}
        assert channel.same_place(one, same)
        for other in ({**one, "url": "https://example.com/b"}, {**one, "secret": "x"}, None):
            assert not channel.same_place(one, other)
            assert not channel.same_place(other, one)

    @pytest.mark.parametrize(
        ("says", "again", "after", "within"),
        [
            (Says(400), True, None, timedelta(hours=1)),
            (Says(401), True, None, timedelta(hours=1)),
            (Says(404), True, None, timedelta(hours=1)),
            (Says(410), False, None, None),
            (Says(429), True, None, None),
            (Says(429, {"retry-after": "120"}), True, timedelta(minutes=2), None),
            (Says(503, {"retry-after": "999999999"}), True, timedelta(days=1), None),
            (Says(503, {"retry-after": "-1"}), True, None, None),
            (Says(503, {"retry-after": "soon"}), True, None, None),
            (Says(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), True, timedelta(), None),
            (Says(503, {"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}), True, None, None),
            (Says(500), True, None, None),
            (Says(599, {"retry-after": "120"}), True, timedelta(minutes=2), None),
            (Says(302, {"location": "http://127.0.0.1/"}), True, None, timedelta(hours=1)),
        ],
        ids=lambda each: str(each.status) if isinstance(each, Says) else None,
    )
    async def test_what_a_receiver_says_decides_about_another_try(
        self,
        channel: Webhook,
        receiver: Receiver,
        says: Says,
        *,
        again: bool,
        after: timedelta | None,
        within: timedelta | None,
    ) -> None:
        receiver.answer = answering(says)
        with pytest.raises(NotSent, match=f"it answered {says.status}") as failed:
            await channel.send(message({"url": receiver.url, "secret": secret()}))
        problem = failed.value
        assert (problem.again, problem.after, problem.within) == (again, after, within)
        assert not problem.arrived_perhaps

    async def test_a_retry_after_may_be_a_date(self, channel: Webhook, receiver: Receiver) -> None:
        at = datetime.now(UTC) + timedelta(minutes=10)
        receiver.answer = answering(Says(503, {"retry-after": at.strftime("%a, %d %b %Y %H:%M:%S GMT")}))
        with pytest.raises(NotSent) as failed:
            await channel.send(message({"url": receiver.url, "secret": secret()}))
        assert failed.value.after is not None
        assert timedelta(minutes=9) < failed.value.after <= timedelta(minutes=10)

    async def test_one_that_hangs_or_hangs_up_got_it_perhaps(self, receiver: Receiver) -> None:
        async def hang(got: Got) -> Says:
            del got
            await asyncio.Event().wait()
            return Says()

        async with open_safe_client(LOOPBACK, within=1.0) as outward:
            channel = Webhook(NOBODY, outward, LOOPBACK)
            for answer in (hang, answering(Says(0))):
                receiver.answer = answer
                with pytest.raises(NotSent, match="it gave no answer") as failed:
                    await channel.send(message({"url": receiver.url, "secret": secret()}))
                assert failed.value.arrived_perhaps
                assert failed.value.again
        assert len(receiver.got) == 2

    async def test_a_long_answer_is_not_read(self, channel: Webhook, receiver: Receiver) -> None:
        receiver.answer = answering(Says(200, body=b"x" * 50_000_000))
        async with asyncio.timeout(WITHIN):
            await channel.send(message({"url": receiver.url, "secret": secret()}))

    async def test_several_at_one_host_share_a_lane(self, channel: Webhook) -> None:
        def key(url: str) -> str | None:
            return channel.rate_limit_key({"url": url, "secret": secret()})

        assert key("https://Example.com/a") == key("https://example.com:443/b?c") == "webhook example.com:443"
        assert len({key("https://example.com"), key("https://example.com:8443"), key("http://x")}) == 3

    @pytest.mark.parametrize(
        "change",
        [
            {"url": "http://93.184.216.34/"},
            {"url": "https://user:pw@example.com/"},
            {"url": "https://example.com/#x"},
            {"url": "https:///x"},
            {"url": "https://exa mple.com"},
            {"url": "https://example.com/\r\nx: y"},
            {"url": "ftp://example.com"},
            {"url": "file:///etc/passwd"},
            {"url": "https://example.com:99999/"},
            {"url": "https://[::1"},
            {"url": ["https://example.com"]},
            {"secret": None},
            {"secret": "whsec_"},
            {"secret": "whsec_" + base64.b64encode(b"short").decode()},
            {"secret": "whsec_" + base64.b64encode(b"x" * 65).decode()},
            {"secret": "whsec_" + "é" * 32},
            {"secret": secret().removeprefix("whsec_")},
            {"previous_secret": "x"},
            {"more": 1},
        ],
        ids=str,
    )
    async def test_an_address_that_makes_no_sense_has_no_lane_and_gets_nothing(
        self, channel: Webhook, change: dict[str, Any]
    ) -> None:
        to: Json = {"url": "https://example.com/", "secret": secret()} | change
        assert channel.rate_limit_key(to) is None
        with pytest.raises(NotSent) as failed:
            await channel.send(message(to))
        assert not failed.value.again


def answering(says: Says) -> Callable[[Got], Any]:
    async def answer(got: Got) -> Says:
        del got
        return says

    return answer


PRIVATE = [
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254"),  # noqa: S104 -- to refuse
    *("100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "2001:db8::1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1"),
    *("2002:7f00:1::", "2002:0a00:0001::1", "2001:0:1234::1"),
]
PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


class TestNeverCalled:
    """A canary listens where nothing may be sent: whatever is tried, nobody ever connects to it."""

    @pytest.fixture
    async def canary(self) -> AsyncIterator[Receiver]:
        async with receiving() as canary:
            yield canary
        assert canary.connections == 0

    @pytest.mark.parametrize("address", PRIVATE)
    def test_addresses_that_are_not_public(self, address: str) -> None:
        assert not public_address(address)
        host = f"[{address}]" if ":" in address else address
        assert read_url(f"https://{host}/", ()) is None

    @pytest.mark.parametrize("address", PUBLIC)
    def test_addresses_that_are(self, address: str) -> None:
        assert public_address(address)
        host = f"[{address}]" if ":" in address else address
        assert read_url(f"https://{host}/", ()) is not None
        assert read_url(f"http://{host}/", LOOPBACK) is None

    @pytest.mark.parametrize(
        "leads",
        [
            ["127.0.0.1"],
            ["93.184.216.34", "127.0.0.1"],
            ["::ffff:127.0.0.1"],
            ["64:ff9b::7f00:1"],
            ["0.0.0.0"],  # noqa: S104 -- an address to refuse
            ["::1"],
        ],
        ids=str,
    )
    @pytest.mark.parametrize("scheme", ["https", "http"])
    async def test_a_name_that_leads_to_one(self, canary: Receiver, leads: list[str], scheme: str) -> None:
        async def resolve(host: str, port: int) -> Sequence[str]:
            assert (host, port) == ("public.example", canary.port)
            return leads

        allowed = (ipaddress.ip_network("192.0.2.0/24"),)
        async with open_safe_client(allowed, resolve=resolve) as outward:
            channel = Webhook(NOBODY, outward, allowed)
            to: Json = {"url": f"{scheme}://public.example:{canary.port}/", "secret": secret()}
            assert channel.rate_limit_key(to)
            with pytest.raises(NotSent, match="must not be called") as failed:
                await channel.send(message(to))
        assert not failed.value.arrived_perhaps
        assert all(each not in str(failed.value) for each in leads)

    @pytest.mark.parametrize(
        "host", ["localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.1."]
    )
    async def test_names_of_this_machine_by_the_systems_own_look_up(
        self, canary: Receiver, host: str
    ) -> None:
        async with open_safe_client() as outward:
            channel = Webhook(NOBODY, outward, ())
            to: Json = {"url": f"https://{host}:{canary.port}/", "secret": secret()}
            with pytest.raises(NotSent):
                await channel.send(message(to))

    async def test_one_that_is_public_first_and_private_at_the_second_look(self, canary: Receiver) -> None:
        """127.0.0.2 stands for a public address, for no test calls those."""
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
            public.answer = answering(Says(200, {"connection": "close"}))
            channel = Webhook(NOBODY, outward, allowed)
            to: Json = {"url": f"http://rebinding.example:{canary.port}/", "secret": secret()}
            await channel.send(message(to))
            assert (len(public.got), looks) == (1, ["rebinding.example"])
            public.answer = answering(Says(0))
            for _ in range(3):
                with pytest.raises(NotSent):
                    await channel.send(message(to))
            assert public.got[0].headers["host"] == f"rebinding.example:{canary.port}"

    async def test_where_a_redirect_leads(self, canary: Receiver) -> None:
        allowed = (ipaddress.ip_network("127.0.0.2/32"),)
        async with receiving(host="127.0.0.2") as public, open_safe_client(allowed) as outward:
            channel = Webhook(NOBODY, outward, allowed)
            for status in (301, 302, 303, 307, 308):
                public.answer = answering(Says(status, {"location": f"http://127.0.0.1:{canary.port}/"}))
                with pytest.raises(NotSent, match="redirects are not followed"):
                    await channel.send(message({"url": public.url, "secret": secret()}))
            assert len(public.got) == 5

    async def test_a_proxy_of_the_environment(
        self, canary: Receiver, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
        async with open_webhook(NOBODY, allowed=LOOPBACK) as channel:
            await channel.send(message({"url": receiver.url, "secret": secret()}))
        assert len(receiver.got) == 1

    async def test_a_host_whose_certificate_is_not_trusted_or_is_anothers(self, tmp_path: Path) -> None:
        known, key = certificate(tmp_path, "right.example")
        tls, trusting = presenting(known, key), ssl.create_default_context(cafile=known)

        async def resolve(host: str, port: int) -> Sequence[str]:
            del host, port
            return ["127.0.0.1"]

        async with receiving(tls=tls) as receiver:
            for trusted, host, sent in (
                (trusting, "right.example", 1),
                (trusting, "wrong.example", 1),
                (None, "right.example", 1),
            ):
                async with open_safe_client(LOOPBACK, resolve=resolve, verify=trusted) as outward:
                    channel = Webhook(NOBODY, outward, LOOPBACK)
                    refused = contextlib.nullcontext() if sent > len(receiver.got) else pytest.raises(NotSent)
                    with refused:
                        await channel.send(
                            message({"url": f"https://{host}:{receiver.port}/", "secret": secret()})
                        )
                assert len(receiver.got) == sent
