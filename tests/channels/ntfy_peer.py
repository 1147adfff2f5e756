"""An ntfy server: takes messages that are published as JSON, and refuses what ntfy refuses.

What it checks is in ntfy's `server/server.go`, `types.go` and `actions.go`; a `sequence_id` is of 2.16 and later.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from handraise.testing.contract.channel import Received
from support.webhook_receiver import Got, Receiver, Says, receiving

TOKEN = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"  # noqa: S105 -- the one of ntfy's documentation
_TOPIC = re.compile(r"^[-_A-Za-z0-9]{1,64}$")
_DISALLOWED = {"docs", "static", "file", "app", "metrics", "account", "settings", "signup", "login", "v1"}
_MESSAGE_LIMIT = 4_096
_PUSHED_LIMIT = 4_000
"""What the services of phones take; ntfy would cut the message to fit."""
_KINDS: dict[str, type] = {
    "topic": str,
    "sequence_id": str,
    "title": str,
    "message": str,
    "priority": int,
    "tags": list,
    "click": str,
    "actions": list,
}


@dataclass
class Ntfy:
    """Topics, and what stands in each: a later message with the same sequence replaces the one before."""

    receiver: Receiver
    protected: set[str] = field(default_factory=set)
    """Topics for which one needs the token."""
    silent: set[str] = field(default_factory=set)
    """Topics about which it never answers."""
    shown: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    taken: list[Received] = field(default_factory=list)
    failing: list[Says] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.receiver.host}:{self.receiver.port}"

    def received(self) -> Sequence[Received]:
        """Everything that was taken; see the contract of channels."""
        return self.taken

    async def take(self, got: Got) -> Says:
        """Take a message, or say why not."""
        if self.failing:
            return self.failing.pop(0)
        if got.line != "POST / HTTP/1.1":
            # At the address of a topic, JSON would be a text like any other.
            return _no(404, 40401)
        if len(got.body) > 2 * _MESSAGE_LIMIT:
            return _no(413, 41303)
        try:
            message = json.loads(got.body.decode())
            assert all(isinstance(value, _KINDS[name]) for name, value in message.items())
        except (ValueError, KeyError, AssertionError):
            return _no(400, 40017)
        if not _TOPIC.match(message.get("topic", "")):
            return _no(400, 40009)
        if message["topic"] in _DISALLOWED:
            return _no(400, 40010)
        if not _TOPIC.match(message["sequence_id"]):
            return _no(400, 40049)
        if not 1 <= message["priority"] <= 5:
            return _no(400, 40007)
        if problem := _actions_problem(message.get("actions", [])):
            return _no(400, 40018, problem)
        given = got.headers.get("authorization")
        if given not in (None, f"Bearer {TOKEN}"):
            return _no(401, 40101)
        if message["topic"] in self.protected and given is None:
            return _no(403, 40301)
        if message["topic"] in self.silent:
            return Says(0)
        assert 0 < len(message["message"].encode()) <= _MESSAGE_LIMIT, "it would become an attachment"
        assert len(got.body) <= _PUSHED_LIMIT, "it would be cut on its way to a phone"
        assert not any("," in tag for tag in message["tags"]), "it would become two"
        self.shown[message["topic"], message["sequence_id"]] = message
        self.taken.append(_received(got.body, message))
        return Says(200, {"content-type": "application/json"}, b'{"id":"sPs71M8A2T"}')


def _actions_problem(actions: list[dict[str, Any]]) -> str | None:
    if len(actions) > 3:
        return "only 3 actions allowed"
    for action in actions:
        if action.get("action") not in ("view", "broadcast", "http"):
            return "parameter 'action' cannot be that"
        if not action.get("label"):
            return "parameter 'label' is required"
        if action["action"] in ("view", "http") and not action.get("url"):
            return "parameter 'url' is required"
    return None


def _received(body: bytes, message: dict[str, Any]) -> Received:
    actions = message.get("actions", [])
    links = [each["url"] for each in actions if each["action"] == "view"]
    text = "\n".join((message["title"], message["message"], message.get("click", ""), *links))
    return Received(body, text, [each["label"] for each in actions if each["action"] != "view"])


def _no(status: int, code: int, error: str = "no") -> Says:
    body = {"code": code, "http": status, "error": error}
    return Says(status, {"content-type": "application/json"}, json.dumps(body).encode())


@asynccontextmanager
async def open_ntfy_server() -> AsyncIterator[Ntfy]:
    """An ntfy server on loopback, for as long as this context lasts."""
    async with receiving() as receiver:
        ntfy = Ntfy(receiver)
        receiver.answer = ntfy.take
        yield ntfy
