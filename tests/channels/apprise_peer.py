"""A system that Apprise's json:// and xml:// speak to: it takes what they send, and nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from handraise.testing.contract.channel import Received
from support.webhook_receiver import Got, Receiver, Says, receiving

SECRET = "s3cr3t-of-ann"  # noqa: S105 -- nobody's
_BASIC = "Basic " + base64.b64encode(f"ann:{SECRET}".encode()).decode()


@dataclass
class Hook:
    """What came, and what to say to it."""

    receiver: Receiver
    bodies: list[dict[str, Any]] = field(default_factory=list)
    taken: list[Received] = field(default_factory=list)
    failing: list[Says] = field(default_factory=list)

    @property
    def url(self) -> str:
        """An Apprise URL that leads here, with secrets where URLs have them."""
        return f"json://ann:{SECRET}@127.0.0.1:{self.receiver.port}/hook/{SECRET}"

    def received(self) -> Sequence[Received]:
        """Everything that was taken; see the contract of channels."""
        return self.taken

    async def take(self, got: Got) -> Says:
        """Take a notification, or say why not."""
        if self.failing:
            return self.failing.pop(0)
        if got.headers.get("authorization") != _BASIC:
            return Says(401)
        body = json.loads(got.body)
        shaped = (
            got.line == f"POST /hook/{SECRET} HTTP/1.1"
            and got.headers["content-type"] == "application/json"
            and body.keys() == {"version", "title", "message", "attachments", "type"}
            and (body["attachments"], body["type"]) == ([], "info")
        )
        if not shaped:
            return Says(400)
        self.bodies.append(body)
        self.taken.append(Received(got.body, f"{body['title']}\n{body['message']}"))
        return Says(200)


@asynccontextmanager
async def open_hook() -> AsyncIterator[Hook]:
    """Such a system on loopback, for as long as this context lasts."""
    async with receiving() as receiver:
        hook = Hook(receiver)
        receiver.answer = hook.take
        yield hook
