"""A stand-in for Discord's cloud on loopback: its REST API, signed interactions, and people who press things.

It refuses what Discord would refuse, with its codes, and signs with an Ed25519 key of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from handraise.testing.contract.channel import Received
from tests.channels.chat_peer import ChatPeer, PostedFile
from tests.channels.discord_rules import (
    EPHEMERAL,
    SUPPRESS_EMBEDS,
    Invalid,
    as_text,
    check_message,
    check_modal,
    elements_in,
)

BOT_TOKEN = "bot.of.the-peer"  # noqa: S105 -- of nobody
APPLICATION, BOT, GUILD, ROOM = (f"1000000000000000{each:02}" for each in range(4))
WITHIN = 30.0
THREE_SECONDS = 3.0
_CREATED = {
    *("content", "components", "allowed_mentions", "flags", "nonce", "enforce_nonce", "message_reference")
}
_EDITED = {"content", "components", "allowed_mentions", "flags"}

Post = Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, str, bytes]]]
"""Takes the headers and the body of a request to the address that the app gave to Discord."""


@dataclass
class Posted:
    """A message in a room, as it stands; one that only `to` sees, where somebody is named."""

    room: str
    id: str
    content: str
    components: list[dict[str, Any]] = field(default_factory=list)
    edits: int = 0
    answers: str | None = None
    to: str | None = None

    @property
    def shown(self) -> str:
        """What people see."""
        return as_text(self.content, self.components)

    @property
    def pressable(self) -> list[str]:
        """What can be pressed, by what it does."""
        return [each["custom_id"].partition(" ")[0] for each in elements_in(self.components)]


@dataclass(frozen=True)
class Sent:
    """A request to the app, and what it answered."""

    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    answer: Any = None


@dataclass(frozen=True)
class Fault:
    """What Discord answers for once."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class DiscordPeer(ChatPeer[Posted, Fault]):
    """Discord with one bot, some people and a room of a guild."""

    within = WITHIN

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.people: set[str] = set()
        self.closed: set[str] = set()
        self.commands: list[dict[str, Any]] = []
        """The commands of the application."""
        """Who takes no messages from the bot."""
        self.dead: set[str] = set()
        self.rooms: dict[str, str | None] = {ROOM: None}
        """Every room, and with whom it is, where it is with one person."""
        self.calls: list[tuple[str, str, Any]] = []
        self.came: list[Received] = []
        self.told: list[tuple[str, Posted]] = []
        """Who was told what, so that nobody else saw it."""
        self.modals: dict[str, tuple[dict[str, Any], Posted]] = {}
        self.refused: list[str] = []
        """What was wrong with what came; a test that did not mean it fails at the end."""
        self.post: Post | None = None
        self.patience = WITHIN
        """How long an answer is waited for: Discord's three seconds only where a test is about them."""
        self.key = Ed25519PrivateKey.generate()
        self._numbers = itertools.count(200_000_000_000_000_000)
        self._by_nonce: dict[str, Posted] = {}
        self._promised: dict[str, tuple[str, str]] = {}

    @property
    def api_url(self) -> str:
        """Where the API is."""
        return f"{self.url}/api/v10"

    @property
    def public_key(self) -> str:
        """What Discord shows of its key."""
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def received(self) -> Sequence[Received]:
        """Every message and change that came, as the contract of channels has it."""
        return self.came

    def app(self) -> web.Application:
        """What Discord serves."""
        app = web.Application(client_max_size=25_000_000)
        app.router.add_route("*", "/api/v10/{path:.*}", self._api)
        return app

    async def press(self, user: str, message: Posted, verb: str, *, option: int | None = None) -> Sent:
        """Somebody presses a button, or chooses from a menu, of a message as they see it."""
        return await self.send(user, message, self.interaction(user, message, verb, option=option))

    def interaction(
        self, user: str, message: Posted, verb: str, *, option: int | None = None
    ) -> dict[str, Any]:
        """What Discord sends when somebody presses something."""
        element = next(
            each for each in elements_in(message.components) if each["custom_id"].partition(" ")[0] == verb
        )
        data: dict[str, Any] = {"custom_id": element["custom_id"], "component_type": element["type"], "id": 2}
        if element["type"] == 3:
            data["values"] = [element["options"][option or 0]["value"]]
        return {"type": 3, "data": data, **self._common(user, message)}

    async def give(self, user: str, name: str, **options: str) -> dict[str, Any]:
        """Somebody gives a command in a room of the guild, and is told something that nobody else sees."""
        [command] = [each for each in self.commands if each["name"] == name]
        assert {each["name"] for each in command["options"]} == options.keys()
        given = [{"name": each, "type": 3, "value": value} for each, value in options.items()]
        payload = self._common(user, Posted(ROOM, self._id(), "", []))
        del payload["message"]
        data = {"id": self._id(), "type": 1, "name": name, "options": given}
        sent = await self.request(self.signed(payload | {"type": 2, "data": data}))
        assert sent.status == 200
        assert sent.answer["type"] == 4
        assert sent.answer["data"]["flags"] & EPHEMERAL, "others would see it"
        for row in sent.answer["data"]["components"]:
            for each in row["components"]:
                assert each["style"] == 5
                assert len(each["url"]) <= 512
        told: dict[str, Any] = sent.answer["data"]
        return told

    async def submit(self, user: str, **values: Any) -> str:
        """Somebody fills in the form that is open before them; gives back what they are told."""
        modal, message = self.modals.pop(user)
        payload = self.submission(user, modal, message, **values)
        sent = await self.send(user, message, payload)
        assert sent.status == 200, sent
        return self.told[-1][1].shown if sent.answer["type"] == 4 else ""

    def submission(
        self, user: str, modal: Mapping[str, Any], message: Posted, **values: Any
    ) -> dict[str, Any]:
        """What Discord sends when somebody has filled in a form."""
        fields = [each["component"] for each in modal["components"] if each["type"] == 18]
        assert set(values) <= {each["custom_id"] for each in fields}, [each["custom_id"] for each in fields]
        components: list[dict[str, Any]] = [
            {"type": 18, "id": number, "component": _filled(each, values.get(each["custom_id"], ...))}
            for number, each in enumerate(fields)
        ]
        components[:0] = [{"type": 10, "id": 99} for each in modal["components"] if each["type"] == 10]
        data = {"custom_id": modal["custom_id"], "components": components}
        return {"type": 5, "data": data, **self._common(user, message)}

    async def send(self, user: str, message: Posted, payload: Mapping[str, Any]) -> Sent:
        """Send something to the app, and do what it answers, as Discord would."""
        sent = await self.request(self.signed(payload))
        if sent.status == 200:
            try:
                self._obey(user, message, payload, sent.answer)
            except (Invalid, AssertionError) as wrong:
                self.refused.append(str(wrong))
                raise
            await self._changes()
        return sent

    def signed(self, payload: Any, *, at: float | None = None) -> Sent:
        """The request with which Discord would send this."""
        return self.sign(json.dumps(payload).encode(), at=at)

    def sign(self, body: bytes, *, at: float | None = None) -> Sent:
        """A request with this body, signed."""
        sent = str(int(time.time() if at is None else at))
        headers = {
            "content-type": "application/json",
            "user-agent": "Discord-Interactions/1.0 (+https://discord.com)",
            "x-signature-timestamp": sent,
            "x-signature-ed25519": self.key.sign(sent.encode() + body).hex(),
        }
        return Sent(headers, body)

    async def request(self, request: Sent) -> Sent:
        """Make a request to the app, and wait for its answer as long as Discord does."""
        assert self.post is not None
        async with asyncio.timeout(self.patience):
            status, kind, said = await self.post(request.headers, request.body)
        if status == 200:
            assert kind == "application/json", kind
        return Sent(request.headers, request.body, status, json.loads(said) if status == 200 else None)

    def _obey(self, user: str, message: Posted, payload: Mapping[str, Any], answer: Any) -> None:
        flags = SUPPRESS_EMBEDS | EPHEMERAL
        match answer:
            case {"type": 4, "data": dict(data), **rest} if not rest:
                check_message(data, flags=flags)
                assert data["flags"] & EPHEMERAL, "everybody would see it"
                self._tell(user, message, data)
            case {"type": 5, "data": {"flags": 64}}:
                self._promised[payload["token"]] = (user, message.room)
            case {"type": 6, **rest} if not rest:
                assert payload["type"] == 3, "only for what is pressed"
            case {"type": 7, "data": dict(data)}:
                assert payload["type"] == 3, "only for what is pressed"
                check_message(data, flags=flags)
                assert message.to == user, "others would see it"
                self._tell(user, message, data)
            case {"type": 9, "data": dict(modal)}:
                assert payload["type"] == 3, "no form opens upon a form"
                check_modal(modal)
                self.modals[user] = (modal, message)
            case other:
                raise AssertionError(f"Discord does not understand {other}")

    def _tell(self, user: str, message: Posted, data: Mapping[str, Any]) -> None:
        made = Posted(message.room, self._id(), data["content"], data.get("components", []), to=user)
        self.told.append((user, made))

    def _common(self, user: str, message: Posted) -> dict[str, Any]:
        person = {
            "id": user,
            "username": f"u{user}",
            "global_name": None,
            "discriminator": "0",
            "avatar": None,
        }
        in_guild = self.rooms[message.room] is None
        who: dict[str, Any] = {"user": person, "context": 1}
        if in_guild:
            member = {"user": person, "roles": [], "permissions": "0", "joined_at": "2025-01-01T00:00:00Z"}
            who = {"member": member, "guild_id": GUILD, "context": 0}
        return {
            "id": self._id(),
            "application_id": APPLICATION,
            "token": f"aW50ZXJhY3Rpb24{next(self._numbers)}-_",
            "version": 1,
            "channel_id": message.room,
            "channel": {"id": message.room, "type": 0 if in_guild else 1},
            "message": {
                "id": message.id,
                "channel_id": message.room,
                "author": {"id": BOT, "bot": True},
                "content": message.content,
                "components": message.components,
                "flags": SUPPRESS_EMBEDS | (EPHEMERAL if message.to else 0),
            },
            "locale": "en-GB",
            "entitlements": [],
            "authorizing_integration_owners": {"0": GUILD if in_guild else "0"},
            "attachment_size_limit": 10_485_760,
            **who,
        }

    def _id(self) -> str:
        return str(next(self._numbers))

    async def _api(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        files: list[PostedFile] = []
        if request.content_type == "multipart/form-data":
            raw, files = await _form(request)
        else:
            raw = await request.read()
        call = f"{request.method} /{path.partition('/')[0]}" + (" with files" if files else "")
        if self.faults.get(call):
            fault = self.faults[call].popleft()
            if fault.body is None:
                return web.Response(status=fault.status, headers=dict(fault.headers))
            return web.json_response(fault.body, status=fault.status, headers=dict(fault.headers))
        try:
            answer = self._do(request, path.split("/"), raw, files)
        except Invalid as invalid:
            self.refused.append(str(invalid))
            why = {"_errors": [{"code": "BASE_TYPE_BAD_LENGTH", "message": str(invalid)}]}
            answer = _no(400, 50035, "Invalid Form Body", errors=why)
        except AssertionError as wrong:
            self.refused.append(str(wrong))
            raise
        await self._changes()
        return answer

    def _do(
        self, request: web.Request, path: list[str], raw: bytes, files: Sequence[PostedFile]
    ) -> web.Response:
        agent, kind = request.headers.get("user-agent", ""), request.headers.get("content-type", "")
        if not agent.startswith("DiscordBot ("):
            return _no(403, 40333, "internal network error")
        if not files and kind != "application/json":
            return _no(400, 50035, "Expected application/json")
        body = json.loads(raw)
        given = request.headers.get("authorization")
        self.calls.append((request.method, "/".join(path), body))
        match request.method, path:
            case "PATCH", ["webhooks", application, token, "messages", "@original"]:
                assert given is None, "the bot's token is not asked for"
                return self._follow(application, token, body)
            case _ if given != f"Bot {BOT_TOKEN}":
                return _no(401, 0, "401: Unauthorized")
            case "GET", ["applications", "@me"]:
                return web.json_response({"id": APPLICATION, "name": "Handraise"})
            case "POST", ["applications", application, "commands"]:
                assert application == APPLICATION
                assert re.fullmatch(r"[-_a-z]{1,32}", body["name"])
                assert 1 <= len(body["description"]) <= 100
                others = [each for each in self.commands if each["name"] != body["name"]]
                self.commands = [*others, body]
                return web.json_response({"id": self._id(), **body}, status=201)
            case "POST", ["users", "@me", "channels"]:
                return self._open(body)
            case "POST", ["channels", room, "messages"] if files:
                return self._take_files(room, body, files)
            case "POST", ["channels", room, "messages"]:
                return self._create(room, body, raw)
            case "PATCH", ["channels", room, "messages", message]:
                return self._edit(room, message, body, raw)
            case _:
                return _no(404, 0, "404: Not Found")

    def _open(self, body: Any) -> web.Response:
        assert body.keys() == {"recipient_id"}, sorted(body)
        user = body["recipient_id"]
        if user in self.dead:
            return web.Response(status=503)
        if user not in self.people:
            return _no(400, 50033, "Invalid Recipient(s)")
        room = next((room for room, known in self.rooms.items() if known == user), None) or self._id()
        self.rooms[room] = user
        return web.json_response({"id": room, "type": 1, "recipients": [{"id": user}]})

    def _create(self, room: str, body: Any, raw: bytes) -> web.Response:
        if room not in self.rooms:
            return _no(404, 10003, "Unknown Channel")
        if self.rooms[room] in self.closed:
            return _no(403, 50007, "Cannot send messages to this user")
        assert body.keys() <= _CREATED, sorted(body)
        check_message(body, flags=SUPPRESS_EMBEDS)
        nonce = body["nonce"]
        if not isinstance(nonce, str) or len(nonce) > 25:
            raise Invalid("nonce")
        assert body["enforce_nonce"] is True, "there would be two of it"
        self._came(body, raw)
        if nonce not in self._by_nonce:
            made = Posted(room, self._id(), body["content"], body["components"])
            made.answers = body.get("message_reference", {}).get("message_id")
            self.messages[made.id] = self._by_nonce[nonce] = made
        known = self._by_nonce[nonce]
        return web.json_response({"id": known.id, "channel_id": known.room, "content": known.content})

    def _take_files(self, room: str, body: Any, files: Sequence[PostedFile]) -> web.Response:
        if room not in self.rooms:
            return _no(404, 10003, "Unknown Channel")
        if len(files) > 10 or sum(len(each.data) for each in files) > 10 * 1024 * 1024:
            return _no(413, 40005, "Request entity too large")
        assert body.keys() <= _CREATED | {"attachments"}, sorted(body)
        assert body["allowed_mentions"] == {"parse": []}
        assert body["attachments"] == [{"id": at, "filename": each.name} for at, each in enumerate(files)], (
            body
        )
        nonce = body["nonce"]
        assert body["enforce_nonce"] is True
        if nonce not in self._by_nonce:
            self._by_nonce[nonce] = made = Posted(room, self._id(), "")
            made.answers = body["message_reference"]["message_id"]
            self.files += [replace(each, place=room, reply_to=made.answers) for each in files]
        return web.json_response({"id": self._by_nonce[nonce].id, "channel_id": room})

    def _edit(self, room: str, message: str, body: Any, raw: bytes) -> web.Response:
        assert body.keys() == _EDITED, sorted(body)
        found = self.messages.get(message)
        if found is None or found.room != room:
            return _no(404, 10008, "Unknown Message")
        check_message(body, flags=SUPPRESS_EMBEDS)
        self._came(body, raw)
        found.content, found.components, found.edits = body["content"], body["components"], found.edits + 1
        return web.json_response({"id": found.id, "channel_id": room, "content": found.content})

    def _follow(self, application: str, token: str, body: Any) -> web.Response:
        if application != APPLICATION or token not in self._promised:
            return _no(404, 10015, "Unknown Webhook")
        check_message(body, flags=SUPPRESS_EMBEDS)
        user, room = self._promised.pop(token)
        made = Posted(room, self._id(), body["content"], body.get("components", []), to=user)
        self.told.append((user, made))
        return web.json_response({"id": made.id})

    def _came(self, body: Mapping[str, Any], raw: bytes) -> None:
        rows = body["components"]
        pressable = [each["custom_id"] for each in elements_in(rows)]
        self.came.append(Received(raw, as_text(body["content"], rows), pressable))


def _filled(field: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """What a field has in it when it is sent: `...` leaves what stood in it at first."""
    made: dict[str, Any] = {"type": field["type"], "id": 7, "custom_id": field["custom_id"]}
    if field["type"] == 4:
        text = field.get("value", "") if value is ... else value
        assert text or not field["required"], f"Discord insists on {field['custom_id']}"
        assert len(text) <= field["max_length"], "too long to be typed"
        return made | {"value": text}
    if value is ...:
        chosen = [each["value"] for each in field["options"] if each.get("default")]
    else:
        chosen = [field["options"][each]["value"] for each in value]
    assert chosen or not field["required"], f"Discord insists on {field['custom_id']}"
    assert not chosen or field["min_values"] <= len(chosen) <= field["max_values"], "too few or too many"
    return made | {"values": chosen}


async def _form(request: web.Request) -> tuple[bytes, list[PostedFile]]:
    """A message and its files, from a form."""
    parts = await request.post()
    said = parts["payload_json"]
    files = []
    for at in range(len(parts) - 1):
        part = parts[f"files[{at}]"]
        assert isinstance(part, web.FileField)
        files.append(PostedFile(None, None, part.filename, part.file.read(), part.content_type))
    assert isinstance(said, (str, bytearray))
    return said.encode() if isinstance(said, str) else bytes(said), files


def _no(status: int, code: int, message: str, **more: Any) -> web.Response:
    return web.json_response({"message": message, "code": code, **more}, status=status)


@asynccontextmanager
async def open_peer() -> AsyncIterator[DiscordPeer]:
    """Discord on loopback, for as long as this context lasts."""
    peer = DiscordPeer()
    runner = web.AppRunner(peer.app(), shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        peer.url = f"http://{host}:{port}"
        yield peer
        assert peer.refused == []
    finally:
        await runner.cleanup()
