"""A stand-in for Telegram's cloud on loopback: the Bot API, webhooks, long polling, and people who press and write.

It refuses what Telegram would refuse, with Telegram's words, as its open Bot API server has them.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from handraise.testing.contract.channel import Received
from tests.channels.chat_peer import ChatPeer, PostedFile
from tests.channels.telegram_rules import ARGUMENTS, Invalid, as_text, check_markup, check_message

BOT = 700_100
BOT_TOKEN, SECRET = f"{BOT}:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "a-secret-that-only-telegram-knows"
ROOM = -1_001_234_567_890
WITHIN = 10.0

Post = Callable[[Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Takes the headers and the body of a request to the address that the bot gave to Telegram."""


@dataclass
class Posted:
    """A message of the bot in a chat, as it stands."""

    chat: int
    id: int
    text: str
    entities: list[dict[str, Any]]
    markup: dict[str, Any] | None = None
    reply_to: int | None = None
    edits: int = 0

    @property
    def shown(self) -> str:
        """What people see."""
        return as_text(self.text, self.entities)

    @property
    def buttons(self) -> list[dict[str, str]]:
        """What can be pressed."""
        rows = (self.markup or {}).get("inline_keyboard", [])
        return [each for row in rows for each in row]

    @property
    def pressable(self) -> list[str]:
        """What stands on the buttons."""
        return [each["text"] for each in self.buttons]

    @property
    def wants_reply(self) -> bool:
        """Whether a reply to it is begun at once."""
        return bool((self.markup or {}).get("force_reply"))

    def as_json(self) -> dict[str, Any]:
        """The message as Telegram hands it on. A wish for a reply is not part of it."""
        made: dict[str, Any] = {
            "message_id": self.id,
            "from": {"id": BOT, "is_bot": True, "first_name": "Handraise", "username": "handraise_bot"},
            "chat": chat_json(self.chat),
            "date": 1_800_000_000,
            "text": self.text,
            "entities": copy.deepcopy(self.entities),
        }
        return made | ({"reply_markup": copy.deepcopy(self.markup)} if self.buttons else {})


@dataclass(frozen=True)
class Fault:
    """What Telegram answers for once; with no description, something that is not its own."""

    status: int
    description: str | None = None
    parameters: Mapping[str, Any] | None = None


class Refused(Exception):
    """An error, as the Bot API has them."""

    def __init__(self, status: int, description: str, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters


class TelegramPeer(ChatPeer[Posted, Fault]):
    """One bot at Telegram, some people and a room."""

    which = -1

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.people: set[int] = set()
        """Who has begun a chat with the bot: nobody else can be written to."""
        self.rooms = {ROOM}
        self.moved: dict[int, int] = {}
        self.blocked: set[int] = set()
        self.dead: set[int] = set()
        self.written: dict[tuple[int, int], dict[str, Any]] = {}
        """What people wrote, by its chat and its number."""
        self.calls: list[tuple[str, Any]] = []
        self.came: list[Received] = []
        self.toasts: list[tuple[int, str, bool]] = []
        """Who was told what over a button, and whether they must close it."""
        self.waiting: dict[str, int] = {}
        """Buttons whose pressers still wait to be told something."""
        self.refused: list[str] = []
        """What was wrong with what came; a test that did not mean it fails at the end."""
        self.webhook: dict[str, Any] | None = None
        self.post: Post | None = None
        """How the bot is reached over HTTP; it must ask where there is none."""
        self.polls: list[str] = []
        """How each long poll ended."""
        self._queue: list[tuple[dict[str, Any], bool]] = []
        self._poll: asyncio.Future[bool] | None = None
        self._numbers = itertools.count(1)
        # As the real one's, they begin anywhere: no test sees the number of another in the same database.
        self._updates = itertools.count(random.randrange(10**8, 10**9))
        self._methods: dict[str, Callable[[Any, bytes], Awaitable[Any]]] = {
            "getMe": self._get_me,
            "setWebhook": self._set_webhook,
            "getUpdates": self._get_updates,
            "sendMessage": self._send_message,
            "sendPhoto": self._send_photo,
            "sendDocument": self._send_document,
            "editMessageText": self._edit_text,
            "editMessageReplyMarkup": self._edit_markup,
            "answerCallbackQuery": self._answer_query,
        }

    def received(self) -> Sequence[Received]:
        """Every message and change that came, as the contract of channels has it."""
        return self.came

    def app(self) -> web.Application:
        """What Telegram serves."""
        app = web.Application(client_max_size=12_000_000)
        app.router.add_post("/bot{token}/{method}", self._api)
        return app

    async def press(self, user: int, message: Posted, label: str) -> int:
        """Somebody presses a button of a message as they see it."""
        return await self.send(self.pressing(user, message, label))

    def pressing(self, user: int, message: Posted, label: str) -> dict[str, Any]:
        """What Telegram sends when somebody presses a button."""
        data = next(each["callback_data"] for each in message.buttons if each["text"] == label)
        return self.query(user, self.as_json(message), data)

    def as_json(self, message: Posted) -> dict[str, Any]:
        """A message as Telegram hands it on, with the one that it replies to; that one is handed on without its own."""
        said = self.written.get((message.chat, message.reply_to or 0))
        return message.as_json() | ({} if said is None else {"reply_to_message": said})

    def query(self, user: int, message: Mapping[str, Any], data: str) -> dict[str, Any]:
        """What Telegram sends when somebody's program says that a button with this data was pressed."""
        name = str(next(self._numbers) + 4_000_000_000_000)
        self.waiting[name] = user
        query = {
            "id": name,
            "from": user_json(user),
            "message": message,
            "chat_instance": "-3",
            "data": data,
        }
        return {"update_id": self.update_id(), "callback_query": query}

    async def say(self, user: int, text: str, *, to: Posted | None = None, chat: int | None = None) -> int:
        """Somebody writes something, in reply to a message or not."""
        return await self.send(self.writing(user, text, to=to, chat=chat))

    def writing(
        self, user: int, text: str, *, to: Posted | None = None, chat: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """What Telegram sends when somebody writes a message."""
        where = to.chat if to is not None else user if chat is None else chat
        message: dict[str, Any] = {
            "message_id": next(self._numbers),
            "from": user_json(user),
            "chat": chat_json(where),
            "date": 1_800_000_000,
            "text": text,
        }
        self.written[where, message["message_id"]] = dict(message)
        if to is not None:
            message["reply_to_message"] = to.as_json()
        return {"update_id": self.update_id(), "message": message | more}

    async def send(self, update: dict[str, Any], *, again: bool = False) -> int:
        """Hand something to the bot, and wait until it has it: over HTTP, or when it asks."""
        if self.post is not None:
            assert self.webhook is not None, "nobody has said where the bot is"
            headers = {
                "content-type": "application/json",
                "x-telegram-bot-api-secret-token": self.webhook["secret_token"],
            }
            status, _ = await self.post(headers, json.dumps(update).encode())
            return status
        self.put(update, again=again)
        await self.until(lambda: not any(each is update for each, _ in self._queue))
        return 200

    def put(self, update: dict[str, Any], *, again: bool = False) -> None:
        """Give something to whoever asks; `again` although it had it before."""
        self.lay_by(update, again=again)
        self.end_polls()

    def lay_by(self, update: dict[str, Any], *, again: bool = False) -> None:
        """Keep something for when the bot asks the next time."""
        self._queue.append((update, again))

    def end_polls(self) -> None:
        """Let go of whoever waits."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(True)

    def update_id(self) -> int:
        """A number for what happens next."""
        return next(self._updates)

    async def _api(self, request: web.Request) -> web.Response:
        try:
            result = await self._do(request, request.match_info["method"])
        except Invalid as invalid:
            self.refused.append(str(invalid))
            return _error(Refused(400, f"Bad Request: {invalid}"))
        except Refused as refused:
            return _error(refused)
        if isinstance(result, web.Response):
            return result
        await self._changes()
        return web.json_response({"ok": True, "result": result})

    async def _do(self, request: web.Request, method: str) -> Any:
        is_form = request.content_type == "multipart/form-data"
        body = await _form(request) if is_form else None
        raw = b"" if is_form else await request.read()
        if request.match_info["token"] != BOT_TOKEN:
            raise Refused(401, "Unauthorized")
        if faults := self.faults.get(method):
            fault = faults.popleft()
            await self._changes()
            if fault.description is None:
                return web.Response(status=fault.status, text="<html>trouble</html>")
            raise Refused(fault.status, fault.description, fault.parameters)
        if method not in ARGUMENTS:
            raise Refused(404, "Not Found: method not found")
        if is_form != (method in ("sendPhoto", "sendDocument")):
            raise Invalid(f"{method} is not sent like this")
        body = json.loads(raw) if body is None else body
        needs, takes = ARGUMENTS[method]
        if needs - body.keys() or body.keys() - needs - takes:
            raise Invalid(f"{method} is given {sorted(body)}")
        self.calls.append((method, body))
        return await self._methods[method](body, raw)

    async def _get_me(self, _: Any, __: bytes) -> Any:
        return {"id": BOT, "is_bot": True, "first_name": "Handraise", "username": "handraise_bot"}

    async def _set_webhook(self, body: dict[str, Any], _: bytes) -> Any:
        where = urlsplit(body["url"])
        if where.scheme != "https" or where.port not in (None, 443, 80, 88, 8443):
            raise Invalid("bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", body.get("secret_token", "x")):
            raise Invalid("secret token contains unallowed characters")
        self.webhook = body
        return True

    async def _get_updates(self, body: dict[str, Any], _: bytes) -> Any:
        if self.webhook is not None:
            raise Refused(
                409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook"
            )
        if body.get("allowed_updates") != ["message", "callback_query"]:
            raise Invalid("these are more kinds of update than anybody looks at")
        offset, wait = body.get("offset", 0), body.get("timeout", 0)
        self._queue = [pair for pair in self._queue if pair[1] or pair[0]["update_id"] >= offset]
        await self._changes()
        if not self._queue and wait:
            if self._poll is not None and not self._poll.done():
                self._poll.set_result(False)
            mine = self._poll = asyncio.get_running_loop().create_future()
            await self._changes()
            try:
                async with asyncio.timeout(wait):
                    is_mine = await mine
            except TimeoutError:
                is_mine = True
            self.polls.append("ended" if is_mine else "conflict")
            if not is_mine:
                raise Refused(
                    409,
                    "Conflict: terminated by other getUpdates request; "
                    "make sure that only one bot instance is running",
                )
        found = [update for update, _ in self._queue]
        # What it had before it gets only once: it would not be asked for.
        self._queue = [pair for pair in self._queue if not pair[1]]
        return found

    def _chat(self, chat: Any) -> int:
        if chat in self.dead:
            raise Refused(503, "Service Unavailable")
        if chat in self.moved:
            raise Refused(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": self.moved[chat]},
            )
        if chat in self.blocked:
            raise Refused(403, "Forbidden: bot was blocked by the user")
        if not isinstance(chat, int) or chat not in self.people | self.rooms:
            raise Refused(400, "Bad Request: chat not found")
        return chat

    async def _send_message(self, body: dict[str, Any], raw: bytes) -> Any:
        chat = self._chat(body["chat_id"])
        check_message(body)
        reply = body.get("reply_parameters")
        made = Posted(
            chat,
            next(self._numbers),
            body["text"],
            body.get("entities", []),
            body.get("reply_markup"),
            None if reply is None else reply["message_id"],
        )
        self._comes(made, raw)
        self.messages[chat, made.id] = made
        return made.as_json()

    async def _send_photo(self, body: dict[str, Any], _: bytes) -> Any:
        if len(body["photo"].data) > 10_000_000:
            raise Refused(400, "Bad Request: file must be non-empty and at most 10 MB")
        return self._send_file(body, body["photo"])

    async def _send_document(self, body: dict[str, Any], _: bytes) -> Any:
        if body.get("disable_content_type_detection") != "true":
            raise Invalid("Telegram would guess what it is")
        return self._send_file(body, body["document"])

    def _send_file(self, body: dict[str, Any], file: PostedFile) -> Any:
        chat, reply = self._chat(int(body["chat_id"])), json.loads(body["reply_parameters"])
        assert reply["allow_sending_without_reply"] is True
        self.files.append(replace(file, place=chat, reply_to=reply["message_id"]))
        return {"message_id": next(self._numbers), "chat": chat_json(chat), "date": 1_800_000_000}

    async def _edit_text(self, body: dict[str, Any], raw: bytes) -> Any:
        found = self._editable(body)
        check_message(body)
        new = (body["text"], body.get("entities", []), body.get("reply_markup"))
        _must_differ(new, (found.text, found.entities, found.markup))
        found.text, found.entities, found.markup = new
        found.edits += 1
        self._comes(found, raw)
        return found.as_json()

    async def _edit_markup(self, body: dict[str, Any], _: bytes) -> Any:
        found = self._editable(body)
        check_markup(body.get("reply_markup"))
        _must_differ(body.get("reply_markup"), found.markup)
        found.markup = body.get("reply_markup")
        return found.as_json()

    async def _answer_query(self, body: dict[str, Any], _: bytes) -> Any:
        text = body.get("text", "")
        if len(text) > 200:
            raise Invalid("MESSAGE_TOO_LONG")
        user = self.waiting.pop(body["callback_query_id"], None)
        if user is None:
            raise Refused(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self.toasts.append((user, text, body.get("show_alert", False)))
        return True

    def _editable(self, body: Mapping[str, Any]) -> Posted:
        chat = self._chat(body["chat_id"])
        found = self.messages.get((chat, body["message_id"]))
        if found is None:
            raise Refused(400, "Bad Request: message to edit not found")
        if found.wants_reply:
            raise Refused(400, "Bad Request: message can't be edited")
        return found

    def _comes(self, message: Posted, raw: bytes) -> None:
        self.came.append(Received(raw, message.shown, message.pressable))


async def _form(request: web.Request) -> dict[str, Any]:
    """The parts of a form: its fields as texts, and its one file."""
    return {
        name: PostedFile(None, None, each.filename, each.file.read(), each.content_type)
        if isinstance(each, web.FileField)
        else each
        for name, each in (await request.post()).items()
    }


def _must_differ(new: Any, old: Any) -> None:
    if new == old:
        raise Refused(
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly "
            "the same as a current content and reply markup of the message",
        )


def _error(refused: Refused) -> web.Response:
    said: dict[str, Any] = {
        "ok": False,
        "error_code": refused.status,
        "description": refused.description,
    }
    if refused.parameters:
        said["parameters"] = dict(refused.parameters)
    return web.json_response(said, status=refused.status)


def user_json(user: int) -> dict[str, Any]:
    """Somebody, as Telegram names them."""
    return {"id": user, "is_bot": False, "first_name": f"Person {user}", "language_code": "en"}


def chat_json(chat: int) -> dict[str, Any]:
    """A chat: with one person where its id is theirs, else a room."""
    if chat > 0:
        return {"id": chat, "type": "private", "first_name": f"Person {chat}"}
    return {"id": chat, "type": "supergroup", "title": "Operations"}


@asynccontextmanager
async def open_peer() -> AsyncIterator[TelegramPeer]:
    """Telegram on loopback, for as long as this context lasts."""
    peer = TelegramPeer()
    runner = web.AppRunner(peer.app(), shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        peer.url = f"http://{host}:{port}"
        yield peer
        assert peer.refused == []
        assert peer.waiting == {}, "somebody who pressed a button still waits"
    finally:
        peer.end_polls()
        await runner.cleanup()
