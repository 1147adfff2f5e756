"""A stand-in for Microsoft on loopback: token endpoint, OpenID metadata, keys and connector in one; and people.

It refuses what Microsoft would refuse, and sends activities with tokens that it signs with its own key.
"""

from __future__ import annotations

import base64
import copy
import functools
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from handraise.testing.contract.channel import Received
from tests.channels.chat_peer import ChatPeer
from tests.channels.teams_rules import Invalid, as_text, buttons_in, check_activity, check_card, inputs_in

APP = "1a1b1c1d-2222-4333-8444-555555555555"
SECRET = "peer~client.secret"  # noqa: S105 -- of nobody
TENANT = "aaaaaaaa-0000-4000-8000-000000000001"
ISSUER = "https://api.botframework.com"
ROOM = "19:ops@thread.tacv2"
WITHIN = 10.0

Post = Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Takes the headers and the body of a request to the address that the bot gave to Microsoft."""


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@functools.cache
def _private(name: str) -> rsa.RSAPrivateKey:
    del name
    return rsa.generate_private_key(65_537, 2_048)


@dataclass
class Key:
    """A signing key, by its name."""

    id: str
    private: rsa.RSAPrivateKey = field(repr=False)
    endorsements: list[str] | None = field(default_factory=lambda: ["msteams", "webchat"])

    @classmethod
    def new(cls, name: str) -> Key:
        """A key of this name: to make one takes long, so that each is made once."""
        return cls(name, _private(name))

    def published(self) -> dict[str, Any]:
        """What the list of keys has of it."""
        numbers = self.private.public_key().public_numbers()
        found: dict[str, Any] = {
            "kty": "RSA",
            "use": "sig",
            "kid": self.id,
            "x5t": self.id,
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        return found if self.endorsements is None else {**found, "endorsements": self.endorsements}

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        """A token with these claims, by hand, so that anything can be wrong with it."""
        head = {"alg": "RS256", "kid": self.id, "x5t": self.id, "typ": "JWT", **header}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self.private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"


@dataclass
class Posted:
    """A message in a conversation, as it stands."""

    conversation: str
    id: str
    activity: dict[str, Any]
    below: str | None = None
    edits: int = 0

    @property
    def card(self) -> Any:
        """The card in it."""
        return self.activity["attachments"][0]["content"] if "attachments" in self.activity else None

    @property
    def shown(self) -> str:
        """What people see."""
        return self.activity["text"] if self.card is None else as_text(self.card)

    @property
    def pressable(self) -> list[str]:
        """What can be pressed."""
        return [each["verb"] for each in buttons_in(self.card)]


@dataclass(frozen=True)
class Fault:
    """What Microsoft answers for once."""

    status: int
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class TeamsPeer(ChatPeer[Posted, Fault]):
    """One tenant with a bot, some people and a room."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.people: dict[str, str] = {}
        """The tenant of each person for whom the bot is installed."""
        self.rooms = {ROOM}
        self.directory: list[dict[str, Any]] = []
        """The people of the tenant, as Graph has them."""
        self.graph_tokens: set[str] = set()
        self.key = Key.new("key-1")
        self.published = [self.key]
        self.came: list[Received] = []
        self.refused: list[str] = []
        """What was wrong with what came; a test that did not mean it fails at the end."""
        self.dead: set[str] = set()
        self.tokens: dict[str, float] = {}
        self.token_lasts = 3_599
        self.token_requests = 0
        self.key_requests = 0
        self.next_id: str | None = None
        """What the next messages are called, as if they were one."""
        self.post: Post | None = None
        self._numbers = itertools.count(1)

    @property
    def service(self) -> str:
        """Where the connector is."""
        return f"{self.url}/teams"

    @property
    def metadata_url(self) -> str:
        """Where it is written which keys are ours."""
        return f"{self.url}/v1/.well-known/openidconfiguration"

    def received(self) -> Sequence[Received]:
        """Every message and change that came, as the contract of channels has it."""
        return self.came

    def app(self) -> web.Application:
        """What Microsoft serves."""
        app = web.Application(client_max_size=10_000_000)
        app.router.add_post(f"/login/{TENANT}/oauth2/v2.0/token", self._token)
        app.router.add_get("/v1/.well-known/openidconfiguration", self._metadata)
        app.router.add_get("/v1/.well-known/keys", self._keys)
        app.router.add_get("/v1.0/users", self._users)
        app.router.add_route("*", "/teams/v3/{rest:.*}", self._connector)
        return app

    def activity(self, user: str, conversation: str, **more: Any) -> dict[str, Any]:
        """What comes with everything that somebody does."""
        tenant = self.people.get(user, TENANT)
        room = conversation.startswith("19:")
        return {
            "id": f"f:{next(self._numbers):08}",
            "timestamp": "2026-11-15T09:30:00.000Z",
            "localTimestamp": "2026-11-15T10:30:00.000+01:00",
            "channelId": "msteams",
            "serviceUrl": f"{self.service}/",
            "from": {"id": f"29:{user}", "name": "Somebody", "aadObjectId": user},
            "conversation": {
                "id": conversation,
                "tenantId": tenant,
                "conversationType": "channel" if room else "personal",
                **({"isGroup": True} if room else {}),
            },
            "recipient": {"id": f"28:{APP}", "name": "Handraise"},
            "channelData": {"tenant": {"id": tenant}},
            "entities": [
                {"type": "clientInfo", "locale": "en-GB", "platform": "Web", "timezone": "Europe/Vienna"}
            ],
            **more,
        }

    def interaction(
        self,
        user: str,
        message: Posted,
        verb: str,
        *,
        title: str | None = None,
        card: Any = None,
        **values: Any,
    ) -> dict[str, Any]:
        """What Teams sends when somebody presses a button of a card, with what they put into its inputs."""
        shown = card or message.card
        pressed = next(
            each for each in buttons_in(shown) if each["verb"] == verb and title in (None, each["title"])
        )
        data = copy.deepcopy(pressed["data"])
        if pressed["associatedInputs"] == "auto":
            data |= _filled(shown, values)
        else:
            assert not values, "Teams would leave out what was filled in"
        return self.activity(
            user,
            message.conversation,
            type="invoke",
            name="adaptiveCard/action",
            replyToId=message.id,
            value={"action": {"type": "Action.Execute", "verb": verb, "data": data}, "trigger": "manual"},
        )

    async def press(
        self,
        user: str,
        message: Posted,
        verb: str,
        *,
        title: str | None = None,
        card: Any = None,
        **values: Any,
    ) -> Any:
        """Somebody presses a button; gives back the text or the card that they are shown."""
        status, answer = await self.send(
            self.interaction(user, message, verb, title=title, card=card, **values)
        )
        assert status == 200, (status, answer)
        return shown_in(answer)

    def typed(self, user: str, conversation: str, text: str, **more: Any) -> dict[str, Any]:
        """What Teams sends when somebody types a message."""
        return self.activity(user, conversation, type="message", text=text, textFormat="plain", **more)

    async def send(self, activity: Mapping[str, Any], token: str | None = None) -> tuple[int, Any]:
        """Send an activity to the bot."""
        assert self.post is not None
        headers = {
            "authorization": f"Bearer {token or self.signed(activity)}",
            "content-type": "application/json",
        }
        status, said = await self.post(headers, json.dumps(activity).encode())
        return status, json.loads(said) if said else None

    def claims(self, activity: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The claims of a token for an activity."""
        now = int(time.time())
        return {
            "serviceurl": activity.get("serviceUrl"),
            "nbf": now,
            "exp": now + 3_600,
            "iss": ISSUER,
            "aud": APP,
            **more,
        }

    def signed(self, activity: Mapping[str, Any], **more: Any) -> str:
        """The token with which Microsoft would send an activity."""
        return self.key.sign(self.claims(activity, **more))

    def rotate(self, name: str) -> None:
        """Sign with another key from now on; the old one is published no more."""
        self.key = Key.new(name)
        self.published = [self.key]

    def _fault(self, what: str) -> web.Response | None:
        waiting = self.faults.get(what)
        if not waiting:
            return None
        fault = waiting.popleft()
        body = {} if fault.code is None else {"error": {"code": fault.code, "message": "of the peer"}}
        return web.json_response(body, status=fault.status, headers=dict(fault.headers))

    async def _token(self, request: web.Request) -> web.Response:
        self.token_requests += 1
        if (fault := self._fault("token")) is not None:
            return fault
        form = await request.post()
        expected = {
            "grant_type": "client_credentials",
            "client_id": APP,
            "client_secret": SECRET,
            "scope": f"{ISSUER}/.default",
        }
        graph = expected | {"scope": f"{self.url}/.default"}
        if dict(form) not in (expected, graph):
            return web.json_response({"error": "invalid_client", "error_description": "no"}, status=401)
        token = f"bot-token-{next(self._numbers)}"
        if dict(form) == graph:
            self.graph_tokens.add(token)
        else:
            self.tokens[token] = time.monotonic() + self.token_lasts
        return web.json_response(
            {"token_type": "Bearer", "expires_in": self.token_lasts, "access_token": token}
        )

    async def _users(self, request: web.Request) -> web.Response:
        """People by a filter, of which only the one kind is known that the app needs."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.graph_tokens:
            return _error(401, "InvalidAuthenticationToken")
        asked = re.fullmatch(
            r"mail eq '((?:[^']|'')*)' or userPrincipalName eq '((?:[^']|'')*)'",
            request.query.get("$filter", ""),
        )
        if asked is None or asked[1] != asked[2]:
            return _error(400, "Request_UnsupportedQuery")
        email = asked[1].replace("''", "'").lower()
        found = [
            each
            for each in self.directory
            if email in ((each["mail"] or "").lower(), each["userPrincipalName"].lower())
        ]
        names = request.query["$select"].split(",")
        return web.json_response({"value": [{name: each.get(name) for name in names} for each in found]})

    def enrol(self, user: str, mail: str | None, name: str, **more: Any) -> None:
        """Let somebody be a member of the tenant."""
        self.people[user] = TENANT
        known = {
            "id": user,
            "displayName": name,
            "mail": mail,
            "userPrincipalName": f"{user}@onmicrosoft.test",
        }
        self.directory.append(known | {"accountEnabled": True, "userType": "Member"} | more)

    async def _metadata(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(
            {
                "issuer": ISSUER,
                "jwks_uri": f"{self.url}/v1/.well-known/keys",
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def _keys(self, request: web.Request) -> web.Response:
        del request
        self.key_requests += 1
        if (fault := self._fault("keys")) is not None:
            return fault
        return web.json_response({"keys": [each.published() for each in self.published]})

    async def _connector(self, request: web.Request) -> web.Response:
        raw = await request.read()
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, 0) <= time.monotonic():
            return _error(401, "Unauthorized")
        # As it came: an id may have anything in it, and a slash in it is none of the path's.
        parts = [unquote(each) for each in request.raw_path.split("?")[0].split("/")[3:]]
        try:
            answer = self._do(request.method, parts, json.loads(raw), raw)
        except Invalid as invalid:
            self.refused.append(str(invalid))
            answer = _error(400, "BadSyntax")
        except Exception as wrong:
            self.refused.append(repr(wrong))
            raise
        await self._changes()
        return answer

    def _do(self, method: str, parts: Sequence[str], body: Any, raw: bytes) -> web.Response:
        match method, parts:
            case "POST", ["conversations"]:
                return self._fault("create") or self._create(body)
            case "POST", ["conversations", conversation, "activities"]:
                return self._fault("say") or self._say(conversation, body, raw)
            case "POST", ["conversations", conversation, "activities", below]:
                return self._fault("say") or self._say(conversation, body, raw, below)
            case "PUT", ["conversations", conversation, "activities", said]:
                return self._fault("change") or self._change(conversation, said, body, raw)
            case _:
                raise Invalid(f"no {method} {parts}")

    def _create(self, body: Any) -> web.Response:
        if body.keys() != {"bot", "isGroup", "members", "tenantId", "channelData"}:
            raise Invalid(f"create: {sorted(body)}")
        [member] = body["members"]
        if body["bot"] != {"id": f"28:{APP}"} or body["isGroup"] is not False:
            raise Invalid("create: it is not our bot's own chat")
        if body["channelData"] != {"tenant": {"id": body["tenantId"]}}:
            raise Invalid("create: two tenants")
        if member["id"] in self.dead:
            return _error(503, "ServiceUnavailable")
        if self.people.get(member["id"]) != body["tenantId"]:
            return _error(403, "ForbiddenOperationException")
        return web.json_response({"id": chat_with(member["id"])}, status=201)

    def _say(self, conversation: str, body: Any, raw: bytes, below: str | None = None) -> web.Response:
        if not self._is_there(conversation):
            return _error(404, "ConversationNotFound")
        if below is not None and (conversation, below) not in self.messages:
            return _error(404, "ActivityNotFoundInConversation")
        check_activity(body)
        made = Posted(conversation, self.next_id or f"17000000{next(self._numbers):05}", body, below)
        self.messages[conversation, made.id] = made
        self._came(made, raw)
        return web.json_response({"id": made.id}, status=201)

    def _change(self, conversation: str, said: str, body: Any, raw: bytes) -> web.Response:
        found = self.messages.get((conversation, said))
        if found is None:
            return _error(404, "ActivityNotFoundInConversation")
        check_activity(body)
        if body.get("id") != said:
            raise Invalid("change: of another activity")
        found.activity, found.edits = body, found.edits + 1
        self._came(found, raw)
        return web.json_response({"id": said})

    def _is_there(self, conversation: str) -> bool:
        return conversation.partition(";")[0] in self.rooms or conversation in map(chat_with, self.people)

    def _came(self, made: Posted, raw: bytes) -> None:
        text = f"{made.activity.get('summary', '')}\n{made.shown}"
        self.came.append(Received(raw, text, made.pressable))


def chat_with(user: str) -> str:
    """The chat of the bot with somebody, which is the same however often it is opened."""
    return f"a:1{user}"


def shown_in(answer: Any) -> Any:
    """The text or the card in what the bot answered; fails where Teams would not understand it."""
    assert answer.keys() == {"statusCode", "type", "value"}, answer
    assert answer["statusCode"] == 200
    if answer["type"] == "application/vnd.microsoft.activity.message":
        assert isinstance(answer["value"], str)
        assert answer["value"]
        return answer["value"]
    assert answer["type"] == "application/vnd.microsoft.card.adaptive"
    check_card(answer["value"])
    return answer["value"]


def _filled(card: Any, values: Mapping[str, Any]) -> dict[str, str]:
    """What Teams makes of what was filled in, as texts; fails where it would not let somebody send it."""
    inputs = {each["id"]: each for each in inputs_in(card)}
    assert set(values) <= set(inputs), f"there are only {sorted(inputs)}"
    found = {name: str(values.get(name, each.get("value", ""))) for name, each in inputs.items()}
    for name, each in inputs.items():
        assert found[name] or not each.get("isRequired"), f"Teams insists on {name}"
        if each["type"] == "Input.ChoiceSet":
            known = {choice["value"] for choice in each["choices"]}
            chosen = list(filter(None, found[name].split(",")))
            assert set(chosen) <= known
            assert each.get("isMultiSelect") or len(chosen) <= 1
    return {name: text for name, text in found.items() if text}


def _error(status: int, code: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": "of the peer"}}, status=status)


@asynccontextmanager
async def open_peer() -> AsyncIterator[TeamsPeer]:
    """Microsoft, for as long as this context lasts; fails at the end where something came that it would refuse."""
    peer = TeamsPeer()
    runner = web.AppRunner(peer.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    peer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield peer
    finally:
        await runner.cleanup()
    assert peer.refused == []
