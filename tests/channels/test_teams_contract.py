"""Teams keeps the contract of channels, against a stand-in that refuses what Microsoft would refuse."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import httpx2
import pytest
from aiohttp import web

from handraise.channels import Replies
from handraise.channels.oauth_tokens import AccessTokens, ClientCredentials
from handraise.channels.teams.channel import Teams, open_teams
from handraise.channels.teams.references import Services
from handraise.model.json_values import Json
from handraise.ports.channel import NotSent
from handraise.testing.contract.channel import a_question, settled
from tests.channels.chat_contract import ENDED, ChatContract
from tests.channels.teams_peer import APP, ISSUER, ROOM, SECRET, TENANT, Fault, TeamsPeer, open_peer
from tests.channels.teams_server import ANN, STRANGER

DEAD = "0d0d0d0d-0000-4000-8000-00000000000d"
OTHER = "aaaaaaaa-0000-4000-8000-000000000002"
NOBODY: Any = None
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class TestTeamsContract(ChatContract):
    unsafe: ClassVar = ("{{DATE(", "<at>")
    answers: ClassVar = [
        (Fault(429, None, {"retry-after": "7"}), True, 7, False),
        (Fault(429, "TooManyRequests", {"retry-after": "soon"}), True, None, False),
        (Fault(412, "PreconditionFailed"), True, None, False),
        (Fault(401, "Unauthorized"), True, None, False),
        (Fault(400, "BadSyntax"), False, None, False),
        (Fault(403, "BotNotInConversationRoster"), False, None, False),
        (Fault(403, "ConversationBlockedByUser"), False, None, False),
        (Fault(404, "ConversationNotFound"), False, None, False),
        (Fault(413, "MessageSizeTooBig"), False, None, False),
        (Fault(302, None, {"location": "http://127.0.0.1:9/"}), False, None, False),
        (Fault(502), True, None, True),
        (Fault(503), True, None, True),
    ]
    calls = ("say", "change")
    secret = "bot-token"  # noqa: S105 -- how those of the peer begin

    def replied_to(self, message: Any) -> object:
        return message.below

    @pytest.fixture
    async def peer(self) -> AsyncIterator[TeamsPeer]:
        async with open_peer() as peer:
            peer.people[ANN] = TENANT
            peer.dead.add(DEAD)
            yield peer

    @pytest.fixture
    async def channel(self, peer: TeamsPeer) -> AsyncIterator[Teams]:
        async with open_teams(
            Replies(NOBODY, NOBODY, NOBODY),
            app_id=APP,
            app_secret=SECRET,
            tenant=TENANT,
            service_urls=[peer.service],
            login_url=f"{peer.url}/login",
            metadata_url=peer.metadata_url,
            verify=PLAIN,
        ) as teams:
            yield teams

    @pytest.fixture
    def to(self) -> Json:
        return {"user": ANN}

    @pytest.fixture
    def dead(self) -> Json:
        return {"user": DEAD}

    async def test_a_room_is_a_conversation_and_may_name_its_connector(
        self, channel: Teams, peer: TeamsPeer
    ) -> None:
        for to in ({"conversation": ROOM}, {"conversation": ROOM, "service_url": f"{peer.service}/"}):
            receipt = await channel.send(self.message(channel, to, a_question()))
            assert receipt["conversation"] == ROOM
            await channel.update(self.message(channel, to, settled(a_question(), ENDED)), receipt)
        assert [each.edits for each in peer.messages.values()] == [1, 1]

    async def test_one_token_serves_until_shortly_before_its_end(
        self, channel: Teams, peer: TeamsPeer, to: Json
    ) -> None:
        for _ in range(3):
            await channel.send(self.message(channel, to, a_question()))
        assert peer.token_requests == 1
        now = 1_000.0
        async with httpx2.AsyncClient(verify=PLAIN) as client:
            credentials = AccessTokens(
                client,
                ClientCredentials(APP, SECRET),
                token_url=f"{peer.url}/login/{TENANT}/oauth2/v2.0/token",
                scope=f"{ISSUER}/.default",
                issuer="Microsoft",
                clock=lambda: now,
            )
            first, *others = await asyncio.gather(*(credentials.token() for _ in range(20)))
            assert others == [first] * 19
            now += 3_599 - 301
            assert await credentials.token() == first
            now += 1
            assert await credentials.token() != first
        assert peer.token_requests == 3

    async def test_a_token_that_is_taken_no_more_is_replaced(
        self, channel: Teams, peer: TeamsPeer, to: Json
    ) -> None:
        message = self.message(channel, to, a_question())
        await channel.send(message)
        peer.tokens.clear()
        with pytest.raises(NotSent) as failed:
            await channel.send(message)
        assert (failed.value.again, failed.value.arrived_perhaps) == (True, False)
        await channel.send(message)
        assert peer.token_requests == 2

    async def test_a_chat_that_cannot_be_opened_is_not_tried_again(
        self, channel: Teams, peer: TeamsPeer
    ) -> None:
        for to in ({"user": STRANGER}, {"user": ANN, "tenant": OTHER}):
            with pytest.raises(
                NotSent, match="Teams says “403 ForbiddenOperationException” to POST conversations"
            ) as failed:
                await channel.send(self.message(channel, to, a_question()))
            assert not failed.value.again
        assert peer.messages == {}

    @pytest.mark.parametrize("fault", [Fault(500), Fault(400, "unauthorized_client"), Fault(200)])
    async def test_no_token_is_no_message_and_no_secret_is_told(
        self, channel: Teams, peer: TeamsPeer, to: Json, fault: Fault
    ) -> None:
        peer.fail("token", fault)
        with pytest.raises(NotSent, match="Microsoft gives no token") as failed:
            await channel.send(self.message(channel, to, a_question()))
        assert (failed.value.again, failed.value.arrived_perhaps) == (True, False)
        assert SECRET not in repr(failed.value)
        await channel.send(self.message(channel, to, a_question()))

    @pytest.mark.parametrize("kept", [None, "hides behind the name", "user info", "below another path"])
    async def test_the_token_goes_to_nobody_else(
        self, channel: Teams, peer: TeamsPeer, to: Json, kept: str | None
    ) -> None:
        async with canary() as (elsewhere, heard):
            host = elsewhere.removeprefix("http://")
            url = {
                None: f"{elsewhere}/teams",
                "hides behind the name": f"{elsewhere}/smba.trafficmanager.net/teams",
                "user info": f"http://{peer.url.removeprefix('http://')}@{host}/teams",
                "below another path": f"{peer.url}/elsewhere",
            }[kept]
            for address in ({"conversation": ROOM}, {"user": ANN}):
                named = {**address, "service_url": url}
                assert channel.rate_limit_key(named) is None
                with pytest.raises(NotSent, match="makes no sense to Teams") as failed:
                    await channel.send(self.message(channel, named, a_question()))
                assert not failed.value.again
            receipt = await channel.send(self.message(channel, to, a_question()))
            forged = {**receipt, "service_url": url}
            with pytest.raises(NotSent, match="not known any more"):
                await channel.update(self.message(channel, to, settled(a_question(), ENDED)), forged)
            assert heard == []

    async def test_nobody_is_followed_with_the_token(self, channel: Teams, peer: TeamsPeer, to: Json) -> None:
        async with canary() as (elsewhere, heard):
            for status in (301, 302, 307, 308):
                peer.fail("say", Fault(status, None, {"location": f"{elsewhere}/teams"}))
                with pytest.raises(NotSent):
                    await channel.send(self.message(channel, to, a_question()))
            assert heard == []


class canary:  # noqa: N801 -- used as one would a function
    """Somebody else's server, which tells what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __aenter__(self) -> tuple[str, list[str]]:
        async def hear(request: web.Request) -> web.Response:
            self.heard.append(request.headers.get("authorization", "nothing"))
            return web.json_response({"id": "x"})

        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", hear)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}", self.heard

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("https://smba.trafficmanager.net/emea/", "https://smba.trafficmanager.net/emea"),
        ("https://SMBA.trafficmanager.net/teams", "https://smba.trafficmanager.net/teams"),
        ("https://smba.trafficmanager.net", "https://smba.trafficmanager.net"),
        ("https://smba.example.com/gov/x", "https://smba.example.com/gov/x"),
        ("https://smba.example.com/government", None),
        ("https://smba.example.com/", None),
        ("http://smba.trafficmanager.net/emea/", None),
        ("https://smba.trafficmanager.net.evil.example/", None),
        ("https://smba.trafficmanager.net@evil.example/", None),
        ("https://u:p@smba.trafficmanager.net/", None),
        ("https://smba.trafficmanager.net:444/", None),
        ("https://smba.trafficmanager.net\\@evil.example/", None),
        ("https://evil.example/smba.trafficmanager.net", None),
        ("https://evil.trafficmanager.net/", None),
        ("https://smba.example.com/gov/../evil", None),
        ("https://smba.example.com/gov/%2e%2e/evil", None),
        ("https://smba.trafficmanager.net/?x=https://evil.example", None),
        ("https://smba.trafficmanager.net/#x", None),
        ("https://smba.trafficmanager.net:x/", None),
        ("https://[", None),
        ("//smba.trafficmanager.net/", None),
        ("", None),
        (None, None),
        (7, None),
        (["https://smba.trafficmanager.net/"], None),
        ("https://smba.trafficmanager.net/" + "x" * 1_000, None),
    ],
)
def test_only_known_connectors_may_see_the_token(url: Any, known: str | None) -> None:
    assert Services(["https://smba.example.com/gov"]).known(url) == known


@pytest.mark.parametrize(
    "to",
    [
        {"user": ANN, "conversation": ROOM},
        {"user": ANN.upper()},
        {"user": "ann"},
        {"user": ANN, "tenant": "example.com"},
        {"user": ANN, "more": 1},
        {"conversation": "a/../b"},
        {"conversation": "a?b"},
        {"conversation": ""},
        {"conversation": ROOM, "tenant": TENANT},
        {"service_url": "https://smba.trafficmanager.net/teams"},
        {"conversation": ROOM, "service_url": None},
    ],
)
async def test_addresses_that_make_no_sense_have_no_lane(to: Json) -> None:
    async with open_teams(
        Replies(NOBODY, NOBODY, NOBODY),
        app_id=APP,
        app_secret=SECRET,
        tenant=TENANT,
        verify=PLAIN,
    ) as teams:
        assert teams.rate_limit_key(to) is None
        assert teams.rate_limit_key({"user": ANN}) == "teams smba.trafficmanager.net"
