"""Notifications by Apprise: what is sent, what can never be reached, and whose secrets nobody sees."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import apprise as library
import httpx2
import pydantic
import pytest
from apprise.result import AppriseResult, AppriseResultStatus

from handraise import Answered, Choice
from handraise.channels.apprise import Apprise, open_apprise
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.ports.channel import Message, Notice, NotSent
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing.contract.channel import AT, ChannelContract, a_question, link_to, settled
from support.issuer import Issuer
from support.webhook_receiver import Got, Says, receiving
from tests.certificates import certificate, presenting
from tests.channels.apprise_peer import SECRET, Hook, open_hook
from tests.samples import ON_DISK

# Apprise imports a module that Python is about to leave out.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-apprise.md"
WITHIN = 10.0


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with open_hook() as hook:
        yield hook


@pytest.fixture
async def apprise() -> AsyncIterator[Apprise]:
    async with open_apprise(schemes=["json", "xml"], allowed=LOOPBACK) as channel:
        yield channel


@pytest.fixture
async def confined() -> AsyncIterator[Apprise]:
    """One that may not reach this machine."""
    async with open_apprise(schemes=["json", "xml", "discord", "mailto", "rsyslog"]) as channel:
        yield channel


class TestContract(ChannelContract):
    reports = True
    unsafe: ClassVar = ("<script", "<img", "<!", "<@", "@everyone", "@here", "<https://", "](https://")

    @pytest.fixture
    def peer(self, hook: Hook) -> Hook:
        return hook

    @pytest.fixture
    def channel(self, apprise: Apprise) -> Apprise:
        return apprise

    @pytest.fixture
    def to(self, hook: Hook) -> Json:
        return {"url": hook.url}

    @pytest.fixture
    def dead(self) -> Json:
        return {"url": "json://127.0.0.1:9/"}


def message(url: str, *questions: Any) -> Message:
    notices = [
        Notice(delivery_id=f"d-{each.id}", question=each, reason="asked", link=link_to(each))
        for each in questions or (a_question(),)
    ]
    return Message(
        id="d", workspace="w", channel="apprise", recipient="ann", to={"url": url}, at=AT, notices=notices
    )


async def test_a_notification_begins_with_its_link_and_is_followed_up(apprise: Apprise, hook: Hook) -> None:
    question = a_question(Choice.of("a", "b"))
    receipt = await apprise.send(message(hook.url, question))
    assert receipt == {"status": "success"}
    ended = settled(question, Answered(value="b", at=AT, by="bob"))
    await apprise.update(message(hook.url, ended), receipt)
    asked, answered = hook.bodies
    assert asked["title"] == "deploy-bot asks you to choose one"
    assert asked["message"].splitlines()[0] == link_to(question)
    assert (answered["title"], answered["message"].splitlines()[0]) == ("Answered by bob", "│ b")


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 302])
async def test_what_is_not_taken_is_tried_again_and_says_nothing_of_the_address(
    apprise: Apprise, hook: Hook, status: int
) -> None:
    hook.failing.append(Says(status, {"location": "/elsewhere"}))
    with pytest.raises(NotSent) as failed:
        await apprise.send(message(hook.url))
    assert failed.value.again
    assert str(failed.value) == "Apprise could not deliver it"
    assert failed.value.__cause__ is None
    assert len(hook.receiver.got) == 1  # it did not go elsewhere


async def test_what_was_delivered_in_part_was_delivered(
    apprise: Apprise, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_part(*_: object, **__: object) -> AppriseResult:
        return AppriseResult(status=AppriseResultStatus.PARTIAL)

    monkeypatch.setattr(library.Apprise, "notify", in_part)
    assert await apprise.send(message(hook.url)) == {"status": "partial"}


async def test_whatever_a_service_raises_is_not_told(
    apprise: Apprise, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> AppriseResult:
        raise RuntimeError(hook.url)

    monkeypatch.setattr(library.Apprise, "notify", fails)
    with pytest.raises(NotSent) as failed:
        await apprise.send(message(hook.url))
    assert SECRET not in f"{failed.value!r} {failed.value.__cause__!r} {failed.value.__context__!r}"


@pytest.mark.parametrize(
    "to",
    [
        "json://127.0.0.1/",
        {"url": "syslog://"},
        {"url": "dbus://"},
        {"url": "windows://"},
        {"url": "macosx://"},
        {"url": "ntfy://topic"},
        {"url": "jsons://example.org/"},
        {"url": "https://discord.com/api/webhooks/0000000000/abcdefghijklmnop"},
        {"url": "json://a.example, syslog://"},
        {"url": "json://a.example syslog://"},
        {"url": "json://"},
        {"url": "json:"},
        {"url": "json"},
        {"url": "json://a.example/\x00"},
        {"url": f"json://a.example/{'x' * 2_000}"},
        {"url": "json://a.example", "also": "syslog://"},
        {"url": ["json://a.example"]},
    ],
)
def test_only_one_address_of_a_service_that_was_named_makes_sense(apprise: Apprise, to: Json) -> None:
    assert apprise.rate_limit_key({"url": "json://a.example"}) is not None
    assert apprise.rate_limit_key({"url": "JSON://a.example"}) is not None
    assert apprise.rate_limit_key(to) is None


def test_an_address_of_a_services_own_is_not_one_of_apprise(confined: Apprise) -> None:
    assert confined.rate_limit_key({"url": "discord://0000000000/abcdefghijklmnop"}) is not None
    assert (
        confined.rate_limit_key({"url": "https://discord.com/api/webhooks/0000000000/abcdefghijklmnop"})
        is None
    )


def test_a_lane_says_nothing_of_an_address(apprise: Apprise, hook: Hook) -> None:
    key = apprise.rate_limit_key({"url": hook.url})
    assert key is not None
    assert re.fullmatch(r"apprise json [0-9a-f]{2}", key)


@pytest.mark.parametrize("scheme", ["syslog", "dbus", "windows", "mqtt", "xmpps", "json://", "J", ""])
def test_a_service_of_this_machine_cannot_be_named(scheme: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        ServerSettings(url="memory:", apprise_schemes=[scheme])


async def test_a_service_that_does_not_exist_is_said_at_the_start() -> None:
    with pytest.raises(ValueError, match="no service telegram://"):
        async with open_apprise(schemes=["json", "telegram"]):
            pass


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1:{port}/",
        "json://localhost:{port}/",
        "xml://127.0.0.1:{port}/",
        "json://[::ffff:127.0.0.1]:{port}/",
        "json://0.0.0.0:{port}/",
        "json://2130706433:{port}/",
        "json://0x7f000001:{port}/",
        "json://127.1:{port}/",
        "mailto://ann:pw@localhost:{port}?smtp=127.0.0.1",
        "rsyslog://127.0.0.1:{port}",
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # rsyslog:// leaves a socket behind
async def test_this_machine_is_not_reached_however_it_is_written(confined: Apprise, url: str) -> None:
    async with receiving() as receiver:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", receiver.port))
            datagrams.setblocking(False)
            with pytest.raises(NotSent):
                await confined.send(message(url.format(port=receiver.port)))
            assert (receiver.connections, receiver.got) == (0, [])
            with pytest.raises(BlockingIOError):
                datagrams.recv(1)


async def test_what_was_refused_is_said_without_where_it_leads(confined: Apprise, hook: Hook) -> None:
    with pytest.raises(NotSent) as failed:
        await confined.send(message(hook.url))
    assert str(failed.value) == "it leads to something that must not be reached"
    assert failed.value.within == timedelta(hours=1)


async def test_a_redirect_is_not_followed_into_this_machine(apprise: Apprise, hook: Hook) -> None:
    async def elsewhere(got: Got) -> Says:
        del got
        return Says(307, {"location": f"http://127.0.0.1:{hook.receiver.port}/hook/{SECRET}"})

    async with receiving(elsewhere) as receiver:
        with pytest.raises(NotSent):
            await apprise.send(message(f"json://ann:{SECRET}@127.0.0.1:{receiver.port}/"))
    assert hook.receiver.got == []


async def test_certificates_are_checked_whatever_the_address_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, key = certificate(tmp_path, "localhost")
    async with (
        receiving(tls=presenting(known, key)) as receiver,
        open_apprise(schemes=["jsons"], allowed=LOOPBACK) as channel,
    ):
        url = f"jsons://localhost:{receiver.port}/?verify=no"
        with pytest.raises(NotSent, match="could not deliver"):
            await channel.send(message(url))
        assert receiver.got == []
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(known))
        await channel.send(message(url))
        assert len(receiver.got) == 1


@pytest.mark.parametrize("level", [logging.DEBUG, 1])
async def test_no_secret_is_logged_at_any_level(
    *, apprise: Apprise, hook: Hook, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    with caplog.at_level(level), caplog.at_level(level, "apprise"), caplog.at_level(level, "urllib3"):
        await apprise.send(message(hook.url))
        for url in (
            hook.url.replace(str(hook.receiver.port), "9"),
            f"json://ann:{SECRET}@",
            f"json://{SECRET}?x=%",
        ):
            with pytest.raises(NotSent):
                await apprise.send(message(url))
            apprise.rate_limit_key({"url": url})
        logging.getLogger("urllib3.connectionpool").debug("somebody else's")
    assert SECRET not in caplog.text
    assert "somebody else's" in caplog.text
    assert SECRET not in repr(message(hook.url))
    assert SECRET not in repr(vars(apprise))


@asynccontextmanager
async def server_with(store: str) -> AsyncIterator[ServerContext]:
    settings = ServerSettings(
        url=store,
        poll_interval=0.05,
        apprise_schemes=["json"],
        apprise_allow_private=["127.0.0.0/8"],
        public_url="https://desk.example",
        secret="s" * 40,
    )
    async with open_server(settings) as ctx:
        await ctx.directory.put_person("default", "ann", name="ann", email=None, role=Role.MEMBER)
        yield ctx


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_from_the_question_to_the_resumed_asker_over_a_restart(empty_address: str, hook: Hook) -> None:
    async with server_with(empty_address) as ctx:
        await ctx.outbox.put_address(
            Address(workspace="default", recipient="ann", channel="apprise", id="1", to={"url": hook.url})
        )
        question = await ctx.desk.post("Which strategy?", choices=["a", "b"], recipients=["ann"])
        await becomes(ctx, question.ref, DeliveryStatus.SENT)
        assert f"https://desk.example/questions/{question.id}" in hook.bodies[0]["message"]
    async with server_with(empty_address) as ctx:
        await ctx.desk.answer(question.id, "b", by="ann")
        assert isinstance(await ctx.desk.wait(question.id, timeout=WITHIN), Answered)
        await becomes(ctx, question.ref, DeliveryStatus.UPDATED)
    assert [body["title"] for body in hook.bodies] == ["agent asks you to choose one", "Answered by ann"]


async def test_an_address_is_not_given_out_and_what_failed_says_nothing_of_it(hook: Hook) -> None:
    hook.failing += [Says(500)] * 50
    async with server_with("memory:") as ctx:
        token = await Issuer(ctx.directory).person("default", "root", role=Role.ADMIN)
        inside = httpx2.ASGITransport(create_app(ctx))
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(
            transport=inside, base_url=ctx.settings.base_url, headers=headers
        ) as client:
            place = "/v1/addresses/ann/apprise/1"
            put = await client.put(place, json={"to": {"url": hook.url}})
            refused = await client.put(place, json={"to": {"url": f"tgram://{SECRET}"}})
            assert (put.status_code, refused.status_code) == (200, 422)
            question = await ctx.desk.post("Which?", recipients=["ann"])
            async with asyncio.timeout(WITHIN):
                while not any(each.problem for each in await ctx.outbox.deliveries(question.ref)):
                    await asyncio.sleep(0.01)
            listed = await client.get("/v1/addresses")
            deliveries = await client.get(f"/v1/questions/{question.id}/deliveries")
    assert "Apprise could not deliver it" in deliveries.text
    for answer in (put, refused, listed, deliveries):
        assert SECRET not in answer.text


async def becomes(ctx: ServerContext, ref: Any, status: DeliveryStatus) -> None:
    async with asyncio.timeout(WITHIN):
        while [each.status for each in await ctx.outbox.deliveries(ref)] != [status]:
            await asyncio.sleep(0.01)


async def test_the_page_shows_what_people_see(apprise: Apprise, hook: Hook) -> None:
    question = a_question(Choice.of("Blue-green", "Canary"), asker="deployer")
    await apprise.send(message(hook.url, question))
    [body] = hook.bodies
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text = f"{body['title']}\n{body['message']}"
    assert text in blocks, text


def test_what_is_missing_is_named() -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'apprise': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import handraise.channels.apprise\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 'Apprise is not installed. Run: pip install "handraise[apprise]"' in done.stderr
