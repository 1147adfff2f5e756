"""A stand-in for Slack's cloud on loopback: the Web API, signed requests, Socket Mode, and people who press things.

It refuses what Slack would refuse, and signs with Slack's own code. Slack's own client is run against it, too.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import WSMsgType, web
from slack_sdk.signature import SignatureVerifier

from handraise.testing.contract.channel import Received
from tests.channels.chat_peer import ChatPeer, PostedFile
from tests.channels.slack_rules import Invalid, as_text, check_message, check_view, elements_in

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-peer", "xapp-peer", "8f742231b10e8888abcd99yyyzzz85a5"
TEAM, BOT, APP = "T0HOME", "U0BOT", "A0APP"
ROOM = "C0OPS"
WITHIN = 10.0

Post = Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Takes the headers and the body of a request to the address that the app gave to Slack."""

_JSON = {
    *("chat.postMessage", "chat.update", "chat.postEphemeral", "views.open"),
    "files.completeUploadExternal",
}
_ARGUMENTS = {
    "chat.postMessage": {
        *("channel", "text", "blocks", "metadata", "client_msg_id", "thread_ts"),
        *("mrkdwn", "parse", "link_names", "unfurl_links", "unfurl_media"),
    },
    "chat.update": {"channel", "ts", "text", "blocks", "metadata", "parse", "link_names"},
    "chat.postEphemeral": {"channel", "user", "text", "blocks", "thread_ts"},
    "views.open": {"trigger_id", "view"},
    "conversations.replies": {"channel", "ts", "limit", "include_all_metadata"},
    "files.getUploadURLExternal": {"filename", "length", "alt_txt", "snippet_type"},
    "files.completeUploadExternal": {
        *("files", "channel_id", "thread_ts", "channels", "initial_comment", "blocks"),
    },
    "users.info": {"user"},
    "users.lookupByEmail": {"email"},
    "auth.test": set(),
    "apps.connections.open": set(),
}


@dataclass
class Posted:
    """A message in a conversation, as it stands."""

    channel: str
    ts: str
    user: str
    text: str
    blocks: list[dict[str, Any]] = field(default_factory=list)
    metadata: Any = None
    thread_ts: str | None = None
    edits: int = 0

    @property
    def shown(self) -> str:
        """What people see."""
        return as_text(self.blocks)

    @property
    def pressable(self) -> list[str]:
        """What can be pressed."""
        return [each["action_id"] for _, each in elements_in(self.blocks)]


@dataclass(frozen=True)
class Sent:
    """A request to the app, and what it answered."""

    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    answer: Any = None


@dataclass(frozen=True)
class Fault:
    """What Slack answers for once."""

    status: int = 200
    error: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class SlackPeer(ChatPeer[Posted, Fault]):
    """One Slack team with a bot, some people and a room."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.people: dict[str, str] = {}
        self.rooms = {ROOM}
        self.members: dict[str, dict[str, Any]] = {}
        """What Slack has of people, by their ids."""
        self.may_read_emails = True
        """Whether the app has the scope `users:read.email`."""
        self.calls: list[tuple[str, Any]] = []
        self.came: list[Received] = []
        self.told: list[tuple[str, str]] = []
        """Who was told what, so that nobody else saw it."""
        self.alone: list[tuple[str, Posted]] = []
        """The messages that only one person sees."""
        self.refused: list[str] = []
        """What was wrong with what came; a test that did not mean it fails at the end."""
        self.views: dict[str, dict[str, Any]] = {}
        self.dead: set[str] = set()
        self.triggers: dict[str, str] = {}
        self.post: Post | None = None
        """How the app is reached over HTTP; over a socket where there is none."""
        self.sockets: list[web.WebSocketResponse] = []
        self.greeted = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._by_client_id: dict[tuple[str, str], Posted] = {}
        self._tickets: set[str] = set()
        self._uploads: dict[str, tuple[str, int]] = {}
        self._uploaded: dict[str, tuple[str, bytes]] = {}
        self._acks: dict[str, asyncio.Future[Any]] = {}
        self._responses: dict[str, str] = {}
        self._verifier = SignatureVerifier(SECRET)

    @property
    def api_url(self) -> str:
        """Where the Web API is."""
        return f"{self.url}/api"

    def received(self) -> Sequence[Received]:
        """Every message and change that came, as the contract of channels has it."""
        return self.came

    def app(self) -> web.Application:
        """What Slack serves."""
        app = web.Application(client_max_size=12_000_000)
        app.router.add_post("/api/{method}", self._api)
        app.router.add_post("/actions/{token}", self._respond)
        app.router.add_post("/upload/v1/{file}", self._take_upload)
        app.router.add_get("/link", self._socket)
        return app

    async def press(self, user: str, message: Posted, action: str, *, option: int | None = None) -> Sent:
        """Somebody presses a button, or chooses from a menu, of a message as they see it."""
        return await self.send(self.interaction(user, message, action, option=option))

    def interaction(
        self, user: str, message: Posted, action: str, *, option: int | None = None
    ) -> dict[str, Any]:
        """What Slack sends when somebody presses something."""
        block, element = next(pair for pair in elements_in(message.blocks) if pair[1]["action_id"] == action)
        pressed = {
            "type": element["type"],
            "action_id": action,
            "block_id": block.get("block_id", "gen"),
            "action_ts": self._ts(),
        }
        if element["type"] == "button":
            pressed |= {"text": element["text"], "value": element.get("value", "")}
        else:
            pressed["selected_option"] = element["options"][option or 0]
        return {
            "type": "block_actions",
            **self._common(user),
            "container": {
                "type": "message",
                "message_ts": message.ts,
                "channel_id": message.channel,
                "is_ephemeral": False,
            },
            "channel": {"id": message.channel, "name": "directmessage"},
            "message": {"type": "message", "user": BOT, "ts": message.ts, "text": message.text},
            "state": {"values": {}},
            "response_url": self._response_url(user),
            "actions": [pressed],
        }

    async def submit(self, user: str, **values: Any) -> Any:
        """Somebody fills in the view that is open before them; gives back what is wrong with it, if anything."""
        view = self.views[user]
        inputs = {each["block_id"]: each for each in view["blocks"] if each["type"] == "input"}
        assert set(values) <= set(inputs), f"there are only {sorted(inputs)}"
        state = {block: {"v": _filled(each, values.get(block, ...))} for block, each in inputs.items()}
        for block, each in inputs.items():
            assert each.get("optional") or _something(state[block]["v"]), f"Slack insists on {block}"
        payload = {
            "type": "view_submission",
            **self._common(user),
            "view": {**view, "id": "V0", "team_id": TEAM, "state": {"values": state}, "app_id": APP},
            "response_urls": [],
        }
        sent = await self.send(payload)
        assert sent.status == 200, sent
        match sent.answer:
            case None | {"response_action": "clear"}:
                del self.views[user]
                return None
            case {"response_action": "errors", "errors": dict(errors)}:
                assert errors, "no errors"
                assert set(errors) <= set(inputs), f"errors about {sorted(errors)}"
                return errors
            case {"response_action": "update", "view": shown}:
                check_view(shown)
                self.views[user] = shown
                return as_text(shown["blocks"])
            case other:
                raise AssertionError(f"Slack does not understand {other}")

    def enrol(self, user: str, email: str, name: str, **more: Any) -> None:
        """Let somebody be a member of the team."""
        self.people[user] = TEAM
        profile = {"real_name": name, "email": email}
        self.members[user] = {"id": user, "team_id": TEAM, "deleted": False, "is_bot": False} | more
        self.members[user]["profile"] = profile

    async def say(self, user: str, channel: str, text: str, *, thread: str | None = None) -> Sent:
        """Somebody writes a message, which the app hears of."""
        return await self.send(self.event(user, channel, text, thread=thread))

    def event(
        self, user: str, channel: str, text: str, *, thread: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """What Slack sends when somebody writes a message."""
        ts = self._ts()
        event = {
            "type": "message",
            "user": user,
            "team": self.people.get(user, TEAM),
            "ts": ts,
            "channel": channel,
            "channel_type": "im" if channel.startswith("D") else "channel",
            "text": text,
        }
        if thread is not None:
            parent = self.messages.get((channel, thread))
            event |= {"thread_ts": thread, "parent_user_id": parent.user if parent else user}
        return {
            "token": "legacy",
            "team_id": TEAM,
            "api_app_id": APP,
            "type": "event_callback",
            "event_id": f"Ev{next(self._numbers):08}",
            "event_time": int(time.time()),
            "event": event | more,
        }

    async def send(self, payload: Mapping[str, Any]) -> Sent:
        """Send something to the app, as it is set up: over HTTP, or over a socket."""
        if self.post is None:
            return await self.send_envelope(payload)
        return await self.request(self.signed(payload))

    def signed(self, payload: Mapping[str, Any], *, at: float | None = None, retry: int = 0) -> Sent:
        """The request with which Slack would send this."""
        if payload["type"] in ("event_callback", "url_verification"):
            kind, body = "application/json", json.dumps(payload).encode()
        else:
            kind, body = (
                "application/x-www-form-urlencoded",
                urlencode({"payload": json.dumps(payload)}).encode(),
            )
        return self.sign(body, kind, at=at, retry=retry)

    def sign(self, body: bytes, kind: str, *, at: float | None = None, retry: int = 0) -> Sent:
        """A request with this body, signed."""
        sent = str(int(time.time() if at is None else at))
        headers = {
            "content-type": kind,
            "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "x-slack-request-timestamp": sent,
            "x-slack-signature": self._verifier.generate_signature(timestamp=sent, body=body) or "",
        }
        if retry:
            headers |= {"x-slack-retry-num": str(retry), "x-slack-retry-reason": "http_timeout"}
        return Sent(headers, body)

    async def request(self, request: Sent) -> Sent:
        """Make a request to the app."""
        assert self.post is not None
        status, said = await self.post(request.headers, request.body)
        answer = json.loads(said) if status == 200 and said else None
        return Sent(request.headers, request.body, status, answer)

    async def send_envelope(
        self,
        payload: Mapping[str, Any],
        *,
        socket: web.WebSocketResponse | None = None,
        envelope: str | None = None,
        retry: int = 0,
    ) -> Sent:
        """Send something over a socket, and wait for its acknowledgement as long as Slack does."""
        name = envelope or f"env-{next(self._numbers)}"
        live = socket or await self.socket()
        is_event = payload["type"] == "event_callback"
        ack = self._acks[name] = asyncio.get_running_loop().create_future()
        body: dict[str, Any] = {
            "envelope_id": name,
            "type": "events_api" if is_event else "interactive",
            "payload": payload,
            "accepts_response_payload": not is_event,
        }
        if is_event:
            body |= {"retry_attempt": retry, "retry_reason": "timeout" if retry else ""}
        await live.send_str(json.dumps(body))
        async with asyncio.timeout(3):
            answer = await ack
        return Sent({}, b"", 200, answer)

    async def socket(self) -> web.WebSocketResponse:
        """The youngest live connection, once there is one."""
        async with asyncio.timeout(WITHIN), self.greeted:
            await self.greeted.wait_for(lambda: any(not each.closed for each in self.sockets))
        return [each for each in self.sockets if not each.closed][-1]

    def _common(self, user: str) -> dict[str, Any]:
        trigger = f"{next(self._numbers)}.{next(self._numbers)}.abc"
        self.triggers[trigger] = user
        team = self.people.get(user, TEAM)
        return {
            "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": team},
            "team": {"id": TEAM, "domain": "example"},
            "api_app_id": APP,
            "token": "legacy",
            "trigger_id": trigger,
            "enterprise": None,
            "is_enterprise_install": False,
        }

    def _ts(self) -> str:
        return f"1700000000.{next(self._numbers):06}"

    def _response_url(self, user: str) -> str:
        token = f"r{next(self._numbers)}"
        self._responses[token] = user
        return f"{self.url}/actions/{token}"

    async def _api(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        raw = await request.read()
        faults = self.faults.get(method)
        if faults:
            fault = faults.popleft()
            said: dict[str, Any] = {"ok": fault.error is None, "error": fault.error}
            return web.json_response(said, status=fault.status, headers=dict(fault.headers))
        try:
            said = self._do(method, self._read(request, method, raw), raw)
        except Invalid as invalid:
            self.refused.append(str(invalid))
            messages = [str(invalid)]
            said = {"ok": False, "error": "invalid_blocks", "response_metadata": {"messages": messages}}
        except AssertionError as wrong:
            self.refused.append(str(wrong))
            raise
        status = int(said.pop("status", 200))
        await self._changes()
        return web.json_response(said, status=status)

    def _read(self, request: web.Request, method: str, raw: bytes) -> Any:
        kind = request.headers.get("content-type", "")
        token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("authorization") != f"Bearer {token}":
            return {"refused": "invalid_auth"}
        if kind.startswith("application/json"):
            if method not in _JSON:
                return {"refused": "invalid_form_data"}
            if "charset=utf-8" not in kind:
                return {"refused": "missing_charset"}
            body = json.loads(raw)
        elif kind.startswith("application/x-www-form-urlencoded"):
            body = dict(parse_qsl(raw.decode(), strict_parsing=bool(raw)))
        else:
            return {"refused": "invalid_post_type"}
        if unknown := set(body) - _ARGUMENTS.get(method, set()):
            raise AssertionError(f"{method} has no {sorted(unknown)}")
        self.calls.append((method, body))
        return body

    def _do(self, method: str, body: Any, raw: bytes) -> dict[str, Any]:
        if "refused" in body:
            return {"ok": False, "error": body["refused"]}
        match method:
            case "auth.test":
                return {"ok": True, "team_id": TEAM, "user_id": BOT, "bot_id": "B0BOT", "team": "Example"}
            case "apps.connections.open":
                ticket = f"ticket-{next(self._numbers)}"
                self._tickets.add(ticket)
                return {
                    "ok": True,
                    "url": f"{self.url.replace('http', 'ws')}/link?ticket={ticket}&app_id={APP}",
                }
            case "chat.postMessage":
                return self._post_message(body, raw)
            case "chat.update":
                return self._update(body, raw)
            case "chat.postEphemeral":
                self._check(body)
                self.told.append((body["user"], as_text(body["blocks"]).strip()))
                told = Posted(body["channel"], self._ts(), BOT, body["text"], body["blocks"])
                self.alone.append((body["user"], told))
                return {"ok": True, "message_ts": told.ts}
            case "views.open":
                return self._open(body)
            case "files.getUploadURLExternal":
                file = f"F{next(self._numbers):08}"
                self._uploads[file] = (body["filename"], int(body["length"]))
                return {"ok": True, "upload_url": f"{self.url}/upload/v1/{file}", "file_id": file}
            case "files.completeUploadExternal":
                return self._share(body)
            case "users.info":
                known = self.members.get(body["user"])
                return {"ok": True, "user": known} if known else {"ok": False, "error": "user_not_found"}
            case "users.lookupByEmail":
                if not self.may_read_emails:
                    return {"ok": False, "error": "missing_scope"}
                same = [
                    each
                    for each in self.members.values()
                    if each["profile"].get("email", "").lower() == body["email"].lower()
                ]
                return {"ok": True, "user": same[0]} if same else {"ok": False, "error": "users_not_found"}
            case "conversations.replies":
                if not {"channel", "ts"} <= body.keys():
                    return {"ok": False, "error": "invalid_arguments"}
                found = self.messages.get((body["channel"], body["ts"]))
                if found is None:
                    return {"ok": False, "error": "thread_not_found"}
                return {"ok": True, "messages": [_as_json(found)], "has_more": True}
            case _:
                return {"ok": False, "error": "unknown_method"}

    def _check(self, body: Mapping[str, Any]) -> str | None:
        assert body.get("link_names") in (None, False), "names would be linked"
        assert body.get("parse", "none") == "none", "the text would be parsed"
        return check_message(body)

    def _post_message(self, body: dict[str, Any], raw: bytes) -> dict[str, Any]:
        channel = body["channel"]
        if channel in self.dead:
            return {"ok": False, "status": 503}
        if channel in self.people:
            channel = f"D{channel}"
        elif channel not in self.rooms and channel.removeprefix("D") not in self.people:
            return {"ok": False, "error": "channel_not_found"}
        if (why := self._check(body)) is not None:
            return {"ok": False, "error": why}
        self._came(body, raw)
        known = self._by_client_id.get((channel, body.get("client_msg_id", "")))
        if known is None or "client_msg_id" not in body:
            known = Posted(
                channel,
                self._ts(),
                BOT,
                body["text"],
                body.get("blocks", []),
                body.get("metadata"),
                body.get("thread_ts"),
            )
            self.messages[channel, known.ts] = known
            self._by_client_id[channel, body.get("client_msg_id", known.ts)] = known
        return {"ok": True, "channel": channel, "ts": known.ts, "message": _as_json(known)}

    def _update(self, body: dict[str, Any], raw: bytes) -> dict[str, Any]:
        if body["channel"] in self.dead:
            return {"ok": False, "status": 503}
        found = self.messages.get((body["channel"], body["ts"]))
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        if (why := self._check(body)) is not None:
            return {"ok": False, "error": why}
        self._came(body, raw)
        found.text, found.blocks, found.edits = body["text"], body["blocks"], found.edits + 1
        found.metadata = body.get("metadata", found.metadata)
        return {"ok": True, "channel": found.channel, "ts": found.ts, "text": found.text}

    async def _take_upload(self, request: web.Request) -> web.Response:
        """The place for the bytes of one file, which knows nobody's token."""
        file, data = request.match_info["file"], await request.read()
        if faults := self.faults.get("upload"):
            return web.Response(status=faults.popleft().status)
        assert "authorization" not in request.headers, "our token is nobody else's business"
        name, length = self._uploads.pop(file)
        if len(data) != length:
            return web.Response(status=400, text="wrong length")
        self._uploaded[file] = name, data
        return web.Response(text=f"OK - {length}")

    def _share(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if (body["channel_id"], body.get("thread_ts")) not in self.messages:
            return {"ok": False, "error": "channel_not_found"}
        for each in body["files"]:
            name, data = self._uploaded.pop(each["id"])
            assert each["title"] == name
            self.files.append(PostedFile(body["channel_id"], body["thread_ts"], name, data, "file"))
        return {"ok": True, "files": [{"id": each["id"]} for each in body["files"]]}

    def _open(self, body: dict[str, Any]) -> dict[str, Any]:
        user = self.triggers.pop(body["trigger_id"], None)
        if user is None:
            return {"ok": False, "error": "expired_trigger_id"}
        check_view(body["view"])
        self.views[user] = body["view"]
        return {"ok": True, "view": {**body["view"], "id": "V0"}}

    def _came(self, body: Mapping[str, Any], raw: bytes) -> None:
        blocks = body.get("blocks", [])
        text = f"{body['text']}\n{as_text(blocks)}"
        self.came.append(Received(raw, text, [each["action_id"] for _, each in elements_in(blocks)]))

    async def _respond(self, request: web.Request) -> web.Response:
        user = self._responses.get(request.match_info["token"])
        if user is None:
            return web.Response(status=404, text="used_url")
        body = await request.json()
        assert body.keys() <= {"response_type", "replace_original", "text", "blocks"}, body.keys()
        if not body["replace_original"]:
            assert body["response_type"] == "ephemeral", "everybody would see it"
        assert check_message(body) is None
        self.told.append((user, as_text(body["blocks"]).strip()))
        await self._changes()
        return web.Response(text="ok")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403)
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "connection_info": {"app_id": APP}, "num_connections": 1})
        async with self.greeted:
            self.sockets.append(socket)
            self.greeted.notify_all()
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            said = json.loads(message.data)
            ack = self._acks.get(said["envelope_id"])
            if ack is not None and not ack.done():
                ack.set_result(said.get("payload"))
        return socket


def _as_json(message: Posted) -> dict[str, Any]:
    return {
        "type": "message",
        "user": message.user,
        "ts": message.ts,
        "text": message.text,
        "blocks": message.blocks,
        "metadata": message.metadata,
    }


def _filled(block: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """What an input has in it when it is sent: `...` leaves what stood in it at first."""
    element = block["element"]
    kind = element["type"]
    made: dict[str, Any] = {"type": kind}
    match kind:
        case "plain_text_input" | "number_input" | "email_text_input" | "url_text_input":
            text = element.get("initial_value") if value is ... else value
            if text is not None and kind == "number_input":
                assert element["is_decimal_allowed"] or float(text).is_integer(), "no decimals here"
            assert text is None or len(text) <= element.get("max_length", 3_000)
            return made | {"value": text}
        case "datepicker":
            return made | {"selected_date": element.get("initial_date") if value is ... else value}
        case "datetimepicker":
            return made | {"selected_date_time": element.get("initial_date_time") if value is ... else value}
        case "radio_buttons" | "static_select":
            chosen = element.get("initial_option") if value is ... else value
            return made | {
                "selected_option": element["options"][chosen] if isinstance(chosen, int) else chosen
            }
        case "checkboxes" | "multi_static_select":
            if value is ...:
                return made | {"selected_options": element.get("initial_options", [])}
            return made | {"selected_options": [element["options"][each] for each in value]}
    raise AssertionError(f"nobody can fill in a {kind}")


def _something(element: Mapping[str, Any]) -> bool:
    return any(value not in (None, "", []) for name, value in element.items() if name != "type")


@asynccontextmanager
async def open_peer() -> AsyncIterator[SlackPeer]:
    """Slack on loopback, for as long as this context lasts."""
    peer = SlackPeer()
    runner = web.AppRunner(peer.app(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        peer.url = f"http://{host}:{port}"
        yield peer
        assert peer.refused == []
    finally:
        for socket in peer.sockets:
            await socket.close()
        await runner.cleanup()
