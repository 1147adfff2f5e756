"""ntfy: a notification on a phone or desktop that leads to the question.

An address is `{"topic": "…"}`. Answers are given behind the link: nobody here knows who reads a topic.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from handraise.channels.http_errors import status_error
from handraise.channels.message_texts import heading_of, shortened, waiting_text
from handraise.channels.plain_messages import ended_lines, fitting, lines_of, mention_of
from handraise.channels.safe_http import (
    URL,
    IPNetwork,
    SafeHttpClient,
    open_safe_client,
    place_of,
    read_url,
)
from handraise.model.json_values import Json
from handraise.ports.channel import Message, NotSent
from handraise.presentation.translation import gettext

_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")
_NOT_TOPICS = frozenset(
    {"docs", "static", "file", "app", "metrics", "account", "settings", "signup", "login", "v1"}
)
_LONGEST_TITLE = 120
_LARGEST = 3_600
"""In bytes, of everything. Phones are notified by services that take 4 KB, and ntfy cuts the rest."""
_LOW, _USUAL, _HIGH = 2, 3, 4
_YES, _HOPELESS = range(200, 300), (400, 413)


def read_server_url(text: str, allowed: Sequence[IPNetwork]) -> URL | None:
    """The address of an ntfy server, or None if it makes no sense or could never be called."""
    url = read_url(text, allowed)
    return url if url is not None and url.raw_path in (b"", b"/") else None


@asynccontextmanager
async def open_ntfy(
    *, url: str, token: str | None = None, allowed: Sequence[IPNetwork] = ()
) -> AsyncIterator[Ntfy]:
    """Notifications through one ntfy server, for as long as this context lasts."""
    server = read_server_url(url, allowed)
    if server is None:
        raise ValueError("not the address of an ntfy server that may be called")
    async with open_safe_client(allowed) as outward:
        yield Ntfy(outward, server, token=token)


class Ntfy:
    """Publishes to topics. See `handraise.ports.channel`."""

    name = "ntfy"
    private = False
    """Anyone who knows a topic can read it, and so can the server: no link in it answers."""
    patience = timedelta(hours=6)

    def __init__(
        self, outward: SafeHttpClient, server: URL, *, token: str | None, now: Callable[[], float] = time.time
    ) -> None:
        self._outward = outward
        self._server = server
        self._token = token
        self._now = now

    def rate_limit_key(self, to: Json) -> str | None:
        """The server."""
        return None if _topic_of(to) is None else f"ntfy {place_of(self._server)}"

    async def send(self, message: Message) -> Json:
        """Publish a notification. One that is sent again replaces the first."""
        await self._publish(message.to, message.id, question_content(message))
        return {"sequence": message.id, "alone": len(message.notices) == 1}

    async def update(self, message: Message, receipt: Json) -> None:
        """Say how it ended, in place of the notification; if several were told together, beside them."""
        known = isinstance(receipt, dict) and receipt.get("alone") is True
        await self._publish(
            message.to, receipt["sequence"] if known else message.id, outcome_content(message)
        )

    async def _publish(self, to: Json, sequence: str, content: dict[str, Any]) -> None:
        topic = _topic_of(to)
        if topic is None:
            raise NotSent("its address makes no sense any more", again=False)
        # Since ntfy 2.16, a message with the same sequence replaces the one before; older versions show it as one more.
        body = {"topic": topic, "sequence_id": sequence, **content}
        headers = {"content-type": "application/json", "user-agent": "handraise"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        answered = await self._outward.post(self._server, headers=headers, content=_bytes_of(body))
        if answered.status not in _YES:
            raise status_error("ntfy", answered, final=_HOPELESS, now=self._now())


def _topic_of(to: Json) -> str | None:
    topic = to.get("topic") if isinstance(to, dict) and to.keys() == {"topic"} else None
    usable = isinstance(topic, str) and _TOPIC.fullmatch(topic) and topic not in _NOT_TOPICS
    return topic if usable else None


def question_content(message: Message) -> dict[str, Any]:
    """What is published about a question, or about several."""
    first, several = message.notices[0], len(message.notices) > 1
    risks = {each.question.risk for each in message.notices}
    loud = "high" in risks or any(each.reason == "escalated" for each in message.notices)
    content: dict[str, Any] = {
        "title": shortened(heading_of(first.question), _LONGEST_TITLE),
        "priority": _HIGH if loud else _USUAL,
        "tags": ["handraise", "warning"] if "high" in risks else ["handraise"],
    }
    if several:
        content["title"] = waiting_text(len(message.notices))
        return _filled(content, [line for each in message.notices for line in mention_of(each)])
    # A button that opens a page, and none that does anything by itself.
    button = {"action": "view", "label": gettext("Open"), "url": first.link, "clear": False}
    return _filled(content | {"click": first.link, "actions": [button]}, lines_of(first))


def outcome_content(message: Message) -> dict[str, Any]:
    """What is published about how a question ended."""
    [notice] = message.notices
    ended, lines = ended_lines(notice.question)
    content = {"title": shortened(ended, _LONGEST_TITLE), "priority": _LOW, "tags": ["handraise"]}
    return _filled(content | {"click": notice.link}, lines)


def _filled(content: dict[str, Any], lines: Iterable[str]) -> dict[str, Any]:
    """The same with as many of the lines as there is room for."""
    room = _LARGEST - len(_bytes_of(content))
    return content | {"message": fitting(lines, room, lambda line: len(_bytes_of(line)))}


def _bytes_of(content: Json) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
