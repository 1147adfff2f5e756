"""Web push: a notification in a person's browser or on their phone that leads to the question.

`pip install "handraise[push]"`. It says who asks and what for, not what is in the question, and is encrypted for the
browser. Answers are given behind the link. With `answers`, it shows short yes-or-no questions and actions of low risk, with
buttons that answer them in the session of the browser.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, assert_never
from urllib.parse import urlsplit

from handraise.channels.http_errors import status_error
from handraise.channels.push_subscriptions import NAME, account_of, subscription_id
from handraise.channels.safe_http import (
    IPNetwork,
    SafeHttpClient,
    open_safe_client,
    place_of,
    read_url,
)
from handraise.model.deliveries import Reason
from handraise.model.errors import MissingExtra
from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.ports import Outbox
from handraise.ports.channel import Message, NotSent
from handraise.presentation.one_press import notification_buttons, notification_digest, notification_text
from handraise.presentation.translation import gettext, ngettext

try:
    import httpx2
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from py_vapid import Vapid02  # type: ignore[import-untyped]  # it has none
    from pywebpush import WebPusher  # type: ignore[import-untyped]  # it has none
except ImportError as error:
    raise MissingExtra("pywebpush", "push") from error

_GONE = (404, 410)
_OF_ANOTHER_KEY = (400, 401, 403)
"""What push services say if a browser subscribed to another key."""
_FIRST_REFUSAL = 300
_REFUSALS = frozenset(range(300, 500)) - {429}
_LONGEST_NAME = 60
_KEPT_SECONDS = 86_400
_SIGNED_FOR = 3_600
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve that browsers use."""


@asynccontextmanager
async def open_webpush(
    outbox: Outbox,
    *,
    secrets: Sequence[bytes],
    contact: str,
    allowed: Sequence[IPNetwork] = (),
    answers: bool = False,
) -> AsyncIterator[WebPush]:
    """Web push for as long as this context lasts. Our key at the push services comes from the server's secret.

    A browser subscribes to one key. The second and later secrets are older ones, for browsers that subscribed then.
    """
    keys = [signing_key(secret) for secret in secrets]
    async with open_safe_client(allowed) as outward:
        yield WebPush(outward, outbox, keys=keys, contact=contact, allowed=allowed, answers=answers)


class WebPush:
    """Tells a person's browsers. `to` is what a browser gives out: its `endpoint` and `keys`."""

    name = NAME
    private = False
    """The browser is signed in, or leads there: a notification needs no link that answers."""
    patience = timedelta(hours=6)

    def __init__(
        self,
        outward: SafeHttpClient,
        outbox: Outbox,
        *,
        keys: Sequence[ec.EllipticCurvePrivateKey],
        contact: str,
        allowed: Sequence[IPNetwork] = (),
        answers: bool = False,
    ) -> None:
        self._outward = outward
        self._outbox = outbox
        self._keys = keys
        self._contact = contact
        self._allowed = allowed
        self._answers = answers

    @property
    def public_key(self) -> str:
        """What a browser needs to subscribe, in base64url."""
        point = self._keys[0].public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    def rate_limit_key(self, to: Json) -> str | None:
        """The push service; see the port."""
        url = self._endpoint(to)
        keys = to.get("keys") if isinstance(to, dict) else None
        shaped = isinstance(keys, dict) and all(
            isinstance(keys.get(name), str) for name in ("p256dh", "auth")
        )
        return f"{NAME} {place_of(url)}" if url is not None and shaped else None

    def accepts(self, to: Json) -> bool:
        """Whether a browser made this, so that a notification can be encrypted for it."""
        return self.rate_limit_key(to) is not None and _encrypted(to, b"{}") is not None

    async def send(self, message: Message) -> Json:
        """Send a notification; see the port. One that is sent again replaces the first."""
        url = self._endpoint(message.to)
        payload = payload_of(message, answers=self._answers)
        content = None if url is None else await asyncio.to_thread(_encrypted, message.to, payload)
        if url is None or content is None:
            raise NotSent("the subscription makes no sense", again=False)
        now, *before = self._keys
        answer = await self._outward.post(url, headers=self._headers(now, message, url), content=content)
        for key in before:
            if answer.status not in _OF_ANOTHER_KEY:
                break
            answer = await self._outward.post(url, headers=self._headers(key, message, url), content=content)
        if answer.status in _GONE:
            await self._outbox.remove_address(
                message.workspace, message.recipient, NAME, subscription_id(message.to)
            )
            raise NotSent("the browser has ended its subscription", again=False)
        if answer.status >= _FIRST_REFUSAL:
            raise status_error("the push service", answer, final=_REFUSALS, now=time.time())
        return None

    async def update(self, message: Message, receipt: Json) -> None:
        """Leave it as it is: a second notification would only disturb, and a page that is open closes it."""

    def _headers(self, key: ec.EllipticCurvePrivateKey, message: Message, url: httpx2.URL) -> dict[str, str]:
        parts = urlsplit(str(url))
        claims: dict[str, Any] = {
            "sub": self._contact,
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int(time.time()) + _SIGNED_FOR,
        }
        signed: Mapping[str, str] = Vapid02(private_key=key).sign(claims)
        return {
            **{name.lower(): text for name, text in signed.items()},
            "content-type": "application/octet-stream",
            "content-encoding": "aes128gcm",
            "ttl": str(_KEPT_SECONDS),
            "urgency": "high",
            "topic": message.id[:32],
        }

    def _endpoint(self, to: Json) -> httpx2.URL | None:
        return read_url(to.get("endpoint"), self._allowed) if isinstance(to, dict) else None


def signing_key(secret: bytes) -> ec.EllipticCurvePrivateKey:
    """Our key at the push services: the same wherever the server has the same secret."""
    number = int.from_bytes(hmac.new(secret, b"web push", hashlib.sha512).digest())
    return ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())


def payload_of(message: Message, *, answers: bool = False) -> bytes:
    """What a browser is sent, before it is encrypted; with `answers`, also a short question and its buttons."""
    first = message.notices[0]
    count = len(message.notices)
    said: dict[str, Json]
    if count > 1:
        said = {
            "title": ngettext(
                "{count} question waits for you", "{count} questions wait for you", count
            ).format(count=count),
            "body": gettext("They are in your inbox."),
            "url": "/",
            "tag": "handraise",
        }
    else:
        asker = visible_line(first.question.asker)[:_LONGEST_NAME]
        approval = isinstance(first.question.form, Approval)
        said = {
            "title": (
                gettext("{agent} asks for your approval")
                if approval
                else gettext("{agent} asks you something")
            ).format(agent=asker),
            "body": _why(first.reason),
            "url": f"/questions/{first.question.id}",
            "tag": first.question.id,
        }
        if answers and message.person is not None:
            said |= _buttons(first.question, account_of(message.workspace, message.person))
    return json.dumps(said).encode()


def _buttons(question: Question, account: str) -> dict[str, Json]:
    """The question itself and the buttons that answer it, if that is safe; `shown` and `seen` say what its person saw."""
    buttons = notification_buttons(question)
    if not buttons:
        return {}
    fields = {"via": NAME, "shown": notification_digest(question), "seen": "0"}
    if isinstance(question.form, Approval):
        fields["digest"] = question.form.digest
    return {
        "body": notification_text(question),
        "answers": {
            "account": account,
            "fields": fields,
            "buttons": [{"label": each.label, "name": each.name, "value": each.value} for each in buttons],
            "unsent": gettext("Not sent: there is no connection."),
            "unrecorded": gettext("Your answer was not recorded."),
            "signed_out": gettext("Sign in to answer."),
        },
    }


def _why(reason: Reason) -> str:
    """Why a browser is told now. What people and the agent write is only on the page."""
    match reason:
        case "asked" | "escalated" | "brought_in":
            return gettext("It waits for you in your inbox.")
        case "reminded":
            return gettext("A reminder: it waits for you in your inbox.")
        case "noted":
            return gettext("Somebody has written a note about it. It waits for you in your inbox.")
        case "replied":
            return gettext("The agent has replied. It waits for you in your inbox.")
        case _:
            assert_never(reason)


def _encrypted(to: Json, payload: bytes) -> bytes | None:
    """The payload as only the browser can read it; None if the subscription makes no sense."""
    try:
        body: bytes = WebPusher(to).encode(payload)["body"]
    except Exception:  # noqa: BLE001 -- it raises whatever its base64 and curves do, and all of it means the same
        return None
    return body
