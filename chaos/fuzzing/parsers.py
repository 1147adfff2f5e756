"""Every parser of bytes that come from outside, each as a function that fails only if the parser does.

Errors that a parser says it may raise are ignored. Any other error is a bug, and so is a second without a result.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from handraise import Approval, Choice, Field, Form, InvalidAnswer, InvalidQuestion, MultiChoice, Open
from handraise.backends.hint_codec import decoded
from handraise.channels.chat_channel import NotGenuine
from handraise.channels.discord.channel import Discord
from handraise.channels.email.html_text import html_text
from handraise.channels.email.inbound_mail import InvalidPayload, parse_mail, passes, text_of
from handraise.channels.email.reply_address import ReplyAddresses
from handraise.channels.email.reply_parser import Marks, fresh_text
from handraise.channels.email.server_urls import mail_address
from handraise.channels.inbound_replies import ReplyResult
from handraise.channels.safe_http import public_address, read_url
from handraise.channels.slack.channel import Slack
from handraise.channels.teams.channel import Teams
from handraise.channels.teams.interactions import InteractionHandler
from handraise.channels.teams.references import SeenCodes, Services
from handraise.channels.teams.threads import Threads
from handraise.channels.teams.token_verifier import Tokens
from handraise.channels.telegram.channel import Telegram
from handraise.channels.telegram.references import QuestionReferences
from handraise.channels.webhook import Webhook
from handraise.model.deliveries import Address
from handraise.model.drafting import compose
from handraise.model.form_schemas import form_to_schema
from handraise.model.questions import Draft
from handraise.model.schema_reader import form_from_schema
from handraise.model.typed_replies import read_reply
from handraise.model.validation import check_answer, pattern_problem
from handraise.model.visible import visible, visible_line
from handraise.model.webhook_signatures import secret_bytes, signed
from handraise.ports.channel import NotSent
from handraise.presentation.markdown import one_line
from handraise.questions import Limits
from handraise.server.observability.traces import asker_traceparent
from handraise.server.web.inbox.agent_text import formatted
from handraise.tools.tool_arguments import read_clarify, read_clarifying_question, read_intervention
from handraise.wire.credentials import read_token
from handraise.wire.problem_documents import ProblemDocument
from handraise.wire.records import QuestionRecord
from handraise.wire.requests import AnswerQuestion, PostQuestion

KEY = b"a secret of 32 bytes for fuzzing"
WHSEC = "whsec_YSBzZWNyZXQgb2YgMzIgYnl0ZXMgZm9yIGZ1enppbmc="
SERVICE = "https://smba.trafficmanager.net/teams/"
PLACE = "018f2f3e-7b7a-7cc0-8000-000000000001"
UNREADABLE = (UnicodeDecodeError, json.JSONDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser of bytes, and some valid input."""

    name: str
    parse: Callable[[bytes], object]
    seeds: Sequence[bytes]


class _Nobody:
    """Stands for replies, an interface and a connector with nobody behind them; every call gets such an answer."""

    bot = "7"

    async def find_address(self, workspace: str, channel: str, recipient: str, address_id: str) -> Address:
        """Every webhook has the same secret."""
        to = {"url": "https://hook.example/", "secret": WHSEC}
        return Address(workspace=workspace, recipient=recipient, channel=channel, id=address_id, to=to)

    async def find_question(self, *_: object, **__: object) -> ReplyResult:
        """There is no question."""
        return ReplyResult("refused", "nobody")

    take = find_question

    async def find_responder(self, *_: object, **__: object) -> None:
        """There is no such person."""

    async def find_delivered(self, *_: object, **__: object) -> list[Any]:
        """Nothing was told."""
        return []

    async def check(self, *_: object, **__: object) -> None:
        """Every token is genuine."""

    def use_default_locale(self) -> None:
        """There is nobody to speak to."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Any other call fails as unreachable."""
        if name.startswith("__"):
            raise AttributeError(name)

        async def nowhere(*_: object, **__: object) -> None:
            raise NotSent(f"{name} leads nowhere", again=False)

        return nowhere


NOBODY: Any = _Nobody()
_SIGNING = Ed25519PrivateKey.from_private_bytes(KEY)
_PUBLIC = _SIGNING.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def _received(body: bytes, channel: Any, headers: dict[str, str]) -> None:
    """What a door does with a request that is genuine; a server's own fault is a bug."""

    async def receive() -> int:
        said = await channel.receive(headers, body)
        if hasattr(channel, "finish"):
            await channel.finish()
        return int(said.status)

    status = asyncio.run(receive())
    if status not in (200, 204, 400, 401, 404, 409, 422, 503):
        raise AssertionError(f"answered {status}")


def _webhook(body: bytes) -> None:
    key = secret_bytes(WHSEC)
    if key is None:
        raise AssertionError("the secret is none")
    channel = Webhook(NOBODY, NOBODY, (), now=time.time)
    _received(body, channel, signed("m-1", body, [key], now=time.time()))


def _slack(body: bytes) -> None:
    moment = str(int(time.time()))
    made = hmac.new(KEY, f"v0:{moment}:".encode() + body, hashlib.sha256).hexdigest()
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        headers = {
            "content-type": kind,
            "x-slack-request-timestamp": moment,
            "x-slack-signature": f"v0={made}",
        }
        _received(body, Slack(NOBODY, NOBODY, KEY.decode()), headers)


def _telegram(body: bytes) -> None:
    channel = Telegram(NOBODY, NOBODY, QuestionReferences("7:token"), "https://desk.example", "secret")
    _received(body, channel, {"x-telegram-bot-api-secret-token": "secret"})


def _discord(body: bytes) -> None:
    moment = str(int(time.time()))
    headers = {
        "x-signature-timestamp": moment,
        "x-signature-ed25519": _SIGNING.sign(moment.encode() + body).hex(),
    }
    _received(body, Discord(NOBODY, NOBODY, _PUBLIC), headers)


def _teams(body: bytes) -> None:
    codes = SeenCodes("secret")
    incoming = InteractionHandler(NOBODY, Threads(NOBODY, "default"), "tenant", codes)
    channel = Teams(NOBODY, NOBODY, incoming, Services(), "tenant", replies=NOBODY, codes=codes)
    _received(body, channel, {"authorization": "Bearer x"})


def _teams_token(body: bytes) -> None:
    tokens = Tokens(NOBODY, audience="app", issuer="https://issuer", metadata_url="https://m.example")
    headers = f"Bearer {body.decode('latin-1')}"
    with contextlib.suppress(NotGenuine, NotSent):
        asyncio.run(tokens.check(headers, {"serviceUrl": SERVICE, "channelId": "msteams"}))


def _mail(raw: bytes) -> None:
    with contextlib.suppress(InvalidPayload):
        letter = parse_mail(raw)
        list(ReplyAddresses("reply@example.org", KEY).read(letter.to, letter.references))
        passes(letter, "mx.example.org")
        fresh_text(text_of(letter), Marks(addresses=("desk@example.org",), name="Handraise", lines=("x",)))


def _mail_html(raw: bytes) -> None:
    html_text(raw.decode(errors="replace"))


def _places(raw: bytes) -> None:
    text = raw.decode("latin-1")
    read_url(text, ())
    mail_address(text)
    with contextlib.suppress(ValueError):
        public_address(text)
    asker_traceparent({"traceparent": text})


def _token(raw: bytes) -> None:
    read_token(raw.decode(errors="surrogateescape"))


def _hint(raw: bytes) -> None:
    decoded(raw.decode(errors="replace"))


def _json(raw: bytes) -> Any:
    """What JSON says, or an error of `UNREADABLE`."""
    return json.loads(raw.decode())


def _schema(raw: bytes) -> None:
    with contextlib.suppress(InvalidQuestion, *UNREADABLE, ValueError):
        schema = _json(raw)
        if isinstance(schema, dict):
            form_to_schema(form_from_schema(schema))


_FORMS = (
    Choice.of("a", "b"),
    MultiChoice.of("a", "b"),
    Open(pattern="^[a-z]{1,20}$"),
    Open(type="datetime"),
    Open(type="number", minimum=1),
    Form(fields=(Field(name="a", form=Open(type="integer")), Field(name="b", form=Choice.of("x", "y")))),
    Approval.of("pay", {"n": 1, "to": "x"}, editable=["n"], scopes=["once", "always"]),
)


def _answer(raw: bytes) -> None:
    try:
        value = _json(raw)
    except (*UNREADABLE, ValueError):
        return
    for form in _FORMS:
        with contextlib.suppress(InvalidAnswer):
            check_answer(form, value)


def _reply(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    for form in _FORMS:
        read_reply(Draft(id="q", workspace="w", asker="bot", prompt="?", form=form), text)


def _pattern(raw: bytes) -> None:
    pattern = raw.decode(errors="replace")[:1_000]
    if pattern_problem(pattern) is None:
        with contextlib.suppress(InvalidAnswer):
            check_answer(Open(pattern=pattern), "a" * 20_000 + "!")


def _text(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    for shown in (visible(text), visible_line(text), one_line(text, 100)):
        if any("\x7f" <= each <= "\x9f" or each in "\x1b\u202e" for each in shown):
            raise AssertionError("something unseen is shown")
    if "<script" in str(formatted(text)).lower():
        raise AssertionError("a script is in the page")


def _request(raw: bytes) -> None:
    with contextlib.suppress(pydantic.ValidationError, InvalidQuestion):
        body = PostQuestion.model_validate_json(raw)
        compose(body.prompt, body.options(), new_id="q", workspace="w", asker="bot", limits=Limits())
    for kind in (AnswerQuestion, ProblemDocument, QuestionRecord):
        with contextlib.suppress(pydantic.ValidationError, InvalidQuestion):
            kind.model_validate_json(raw)


def _tool_call(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    for read in (read_clarify, read_clarifying_question, read_intervention):
        with contextlib.suppress(InvalidQuestion):
            read(text)


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


_WHERE = {"recipient": "ann", "id": "main"}
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^x+$"}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a"],
    "$defs": {"b": {"enum": ["x", "y"]}},
}
_LETTER = (
    b"From: =?utf-8?q?Ann?= <ann@example.org>\r\nTo: reply+aaaaaaaaaaaaaaaa@example.org\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\nyes=20\r\n> quoted\r\n--x\r\nContent-Type: text/html\r\n\r\n"
    b"<p>yes<br>&amp;</p>\r\n--x--\r\n"
)
_CARD = {
    "type": "invoke",
    "name": "adaptiveCard/action",
    "serviceUrl": SERVICE,
    "channelId": "msteams",
    "from": {"aadObjectId": PLACE},
    "conversation": {"id": "a", "tenantId": "tenant"},
    "value": {"action": {"type": "Action.Execute", "verb": "approve", "data": {"w": "default", "q": PLACE}}},
}
_MESSAGE = {
    "message_id": 3,
    "chat": {"id": 1},
    "text": "x",
    "entities": [{"type": "text_link", "url": "https://x"}],
}

PARSERS: tuple[Parser, ...] = (
    Parser(
        "webhook", _webhook, [_as_json({"workspace": "w", "address": _WHERE, "question": "q", "value": "x"})]
    ),
    Parser(
        "slack",
        _slack,
        [
            b'payload={"type":"block_actions","user":{"id":"U0ANN"},"actions":[{"action_id":"approve"}]}',
            _as_json(
                {"type": "event_callback", "event": {"type": "message", "user": "U0ANN", "text": "yes"}}
            ),
        ],
    ),
    Parser(
        "telegram",
        _telegram,
        [
            _as_json(
                {
                    "update_id": 1,
                    "callback_query": {"id": "1", "from": {"id": 1}, "data": "AAAA", "message": _MESSAGE},
                }
            ),
            _as_json({"update_id": 2, "message": {**_MESSAGE, "from": {"id": 1}}}),
        ],
    ),
    Parser(
        "discord",
        _discord,
        [_as_json({"type": 3, "id": "1", "member": {"user": {"id": "1"}}, "data": {"custom_id": "h1.x.y"}})],
    ),
    Parser("teams", _teams, [_as_json(_CARD), _as_json({**_CARD, "type": "message", "text": "yes"})]),
    Parser(
        "teams-token", _teams_token, [b"eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.eyJhdWQiOiJhIn0.c2ln", b"a.b.c"]
    ),
    Parser("mail", _mail, [_LETTER]),
    Parser(
        "mail-html", _mail_html, [b"<p>yes<br>no</p><blockquote>old</blockquote>", b"<style>x</style>a&#65;"]
    ),
    Parser(
        "places", _places, [b"https://hook.example:8443/x?y=1", b"Ann <ann@example.org>", b"::ffff:10.0.0.1"]
    ),
    Parser("token", _token, [b"hra_mq_" + b"A" * 43, b"hrq_mRSWC3LTOZ_" + b"b" * 43]),
    Parser("hint", _hint, [b'{"w":["q1","q2"]}', b"w\nq1\nq2"]),
    Parser("schema", _schema, [_as_json(_SCHEMA)]),
    Parser("answer", _answer, [_as_json({"decision": "approve", "arguments": {"n": 2}}), b'["a"]', b"1e400"]),
    Parser("reply", _reply, [b"approve: fine", b"1, 2", b"a: 3\nb: x"]),
    Parser("pattern", _pattern, [rb"^(a+)+$", rb"[a-z]{1,20}(\d|\w)*x", rb"(?i)(x{5}){5}"]),
    Parser("text", _text, [b"# a\n[x](https://y.example) **b** `c`", "a\u202eb&#8238;c".encode()]),
    Parser(
        "request",
        _request,
        [
            _as_json({"prompt": "?", "form": {"kind": "choice", "options": [{"id": "a", "label": "A"}]}}),
            _as_json({"value": {"decision": "approve"}, "details": {"x": [1]}}),
        ],
    ),
    Parser(
        "tool-call", _tool_call, [_as_json({"question": "?", "choices": ["a", "b"], "context": {"x": 1}})]
    ),
)
