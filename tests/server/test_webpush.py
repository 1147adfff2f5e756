"""Web push against a push service on loopback that decrypts what it gets and checks who sent it."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import http_ece  # type: ignore[import-untyped]  # it has none
import httpx2
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02  # type: ignore[import-untyped]  # it has none

from handraise import Approval
from handraise.channels.webpush import open_webpush, signing_key
from handraise.ports.channel import Message, Notice, NotSent
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import bearer

SECRET = "a secret of thirty-two characters"  # noqa: S105 -- for tests
CONTACT = "mailto:ops@example.org"

Headers = dict[str, str]


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class Browser:
    """A browser at a push service: its keys, and what it was told."""

    address: str = ""
    status: int = 201
    headers: dict[str, str] = field(default_factory=dict)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    auth: bytes = field(default_factory=lambda: os.urandom(16))
    told: list[dict[str, Any]] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    refuses_other_keys: list[int] | None = None

    @property
    def subscription(self) -> dict[str, Any]:
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": encoded(point), "auth": encoded(self.auth)}
        return {"endpoint": f"{self.address}/push/1", "keys": keys}

    async def push(self, request: web.Request) -> web.Response:
        scheme, _, rest = request.headers["authorization"].partition(" ")
        assert scheme == "vapid"
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        public = signing_key(SECRET.encode()).public_key()
        if self.refuses_other_keys is not None and parts["k"] != encoded(
            public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        ):
            self.refuses_other_keys.append(403)
            return web.Response(status=403)
        assert parts["k"] == encoded(public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))
        assert Vapid02.verify(request.headers["authorization"])
        claims = json.loads(base64.urlsafe_b64decode(parts["t"].split(".")[1] + "=="))
        assert (claims["aud"], claims["sub"]) == (self.address, CONTACT)
        assert request.headers["content-encoding"] == "aes128gcm"
        assert int(request.headers["ttl"]) > 0
        assert len(request.headers["topic"]) <= 32
        body = http_ece.decrypt(await request.read(), private_key=self.key, auth_secret=self.auth)
        if self.status < 300:
            self.told.append(json.loads(body))
            self.topics.append(request.headers["topic"])
        return web.Response(status=self.status, headers=self.headers)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    browser = Browser()
    app = web.Application()
    app.router.add_post("/push/1", browser.push)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    browser.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield browser
    await runner.cleanup()


@pytest.fixture
def settings() -> dict[str, Any]:
    return {
        "secret": SECRET,
        "push_contact": CONTACT,
        "push_allow_private": ["127.0.0.0/8"],
        "poll_interval": 0.05,
    }


@pytest.fixture
async def person(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann"))


async def statuses(ctx: ServerContext, workspace: str, question_id: str) -> list[str]:
    question = await ctx.desk.scoped(workspace).get(question_id)
    return [each.status.value for each in await ctx.outbox.deliveries(question.ref)]


async def until(ctx: ServerContext, workspace: str, question_id: str, wanted: list[str]) -> None:

    async with asyncio.timeout(10):
        while await statuses(ctx, workspace, question_id) != wanted:
            await asyncio.sleep(0.01)


async def test_a_browser_that_subscribed_is_told_who_asks_and_nothing_of_the_question(
    client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str, browser: Browser
) -> None:
    key = (await client.get("/v1/push/key", headers=person)).json()["key"]
    assert base64.urlsafe_b64decode(key + "==")[:1] == b"\x04"
    done = await client.post("/v1/push/subscriptions", json=browser.subscription, headers=person)
    assert done.status_code == 204, done.text
    desk = ctx.desk.scoped(workspace, asker="de\u202eploy")
    form = Approval.of("drop", {"table": "accounts"})
    question = await desk.post("the secret is 42", form=form, recipients=["ann"])
    await until(ctx, workspace, question.id, ["sent"])
    [told] = browser.told
    assert told["url"] == f"/questions/{question.id}"
    assert told["tag"] == question.id
    assert "asks for your approval" in told["title"]
    assert "\u202e" not in told["title"]
    assert "42" not in json.dumps(told).replace(question.id, "")
    page = " ".join((await client.get(f"/questions/{question.id}", headers=person)).text.split())
    assert 'A message for you through a notification <span class="badge">sent</span>' in page
    await desk.withdraw(question.id)
    await until(ctx, workspace, question.id, ["updated"])
    done = await client.request("DELETE", "/v1/push/subscriptions", json=browser.subscription, headers=person)
    assert done.status_code == 204
    assert await ctx.outbox.addresses(workspace) == []


async def test_a_browser_that_subscribed_before_the_secret_was_replaced_is_still_told(
    client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str, browser: Browser
) -> None:
    await client.post("/v1/push/subscriptions", json=browser.subscription, headers=person)
    sent: list[int] = []
    browser.refuses_other_keys = sent
    question = await ctx.desk.scoped(workspace, asker="bot").post("Go?")
    (address,) = await ctx.outbox.addresses(workspace)
    notice = Notice(delivery_id="d", question=question, reason="asked", link="https://example.com/")
    message = Message(
        id="m",
        workspace=workspace,
        channel="webpush",
        recipient="ann",
        to=address.to,
        at=question.asked_at,
        notices=(notice,),
    )
    networks = [ipaddress.ip_network("127.0.0.0/8")]
    secrets = [b"a new secret", SECRET.encode()]
    async with open_webpush(ctx.outbox, secrets=secrets, contact=CONTACT, allowed=networks) as push:
        await push.send(message)
    assert (sent, len(browser.told)) == ([403], 1)
    async with open_webpush(ctx.outbox, secrets=secrets[:1], contact=CONTACT, allowed=networks) as push:
        with pytest.raises(NotSent, match="403"):
            await push.send(message)


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_has_ended_is_forgotten(
    client: httpx2.AsyncClient,
    person: Headers,
    ctx: ServerContext,
    workspace: str,
    browser: Browser,
    status: int,
) -> None:
    await client.post("/v1/push/subscriptions", json=browser.subscription, headers=person)
    browser.status = status
    question = await ctx.desk.scoped(workspace, asker="bot").post("Go?", recipients=["ann"])
    await until(ctx, workspace, question.id, ["failed"])
    assert await ctx.outbox.addresses(workspace) == []
    assert (await ctx.desk.scoped(workspace).get(question.id)).unreached_at is not None


async def test_what_is_no_subscription_is_refused(
    client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str, browser: Browser
) -> None:
    good = browser.subscription
    for bad in (
        good | {"endpoint": "http://10.0.0.1/push"},
        good | {"endpoint": "ftp://127.0.0.1/push"},
        good | {"keys": good["keys"] | {"p256dh": "AAAA"}},
        good | {"keys": good["keys"] | {"auth": ""}},
    ):
        refused = await client.post("/v1/push/subscriptions", json=bad, headers=person)
        assert refused.status_code == 422, bad
    assert await ctx.outbox.addresses(workspace) == []


async def test_an_agent_cannot_subscribe(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, browser: Browser
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    refused = await client.post("/v1/push/subscriptions", json=browser.subscription, headers=agent)
    assert refused.status_code == 403


async def test_one_person_has_a_bounded_number_of_browsers(
    client: httpx2.AsyncClient, person: Headers, ctx: ServerContext, workspace: str, browser: Browser
) -> None:
    for number in range(25):
        body = browser.subscription | {"endpoint": f"{browser.address}/push/{number}"}
        assert (await client.post("/v1/push/subscriptions", json=body, headers=person)).status_code == 204
    assert len(await ctx.outbox.addresses(workspace)) <= 20


async def test_without_settings_there_is_no_web_push(ctx: ServerContext) -> None:
    async with open_webpush(ctx.outbox, secrets=[b"x"], contact=CONTACT) as push:
        assert push.rate_limit_key({"endpoint": "https://push.example/1", "keys": {}}) is None
        assert push.rate_limit_key("nonsense") is None
