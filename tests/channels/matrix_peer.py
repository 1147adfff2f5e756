"""A homeserver of Matrix: takes messages into rooms as the client-server API says, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from handraise.testing.contract.channel import Received
from support.webhook_receiver import Got, Receiver, Says, receiving

TOKEN = "syt_secret"  # noqa: S105 -- nobody's
_LARGEST = 65_536
_SEND = re.compile(r"PUT /_matrix/client/v3/rooms/([^/ ]+)/send/m\.room\.message/([^/ ?]+) HTTP/1\.1")


@dataclass
class Homeserver:
    """The rooms that the token's user is in, and what was said in them."""

    receiver: Receiver
    rooms: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    """Rooms about which it never answers."""
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What there is, by event; `edited` is what it was replaced by."""
    transactions: dict[tuple[str, str], str] = field(default_factory=dict)
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
        """Take an event into a room, or say why not."""
        if self.failing:
            return self.failing.pop(0)
        if got.headers.get("authorization") != f"Bearer {TOKEN}":
            return _no(401, "M_UNKNOWN_TOKEN")
        if not (line := _SEND.fullmatch(got.line)):
            return _no(404, "M_UNRECOGNIZED")
        room, transaction = unquote(line[1]), unquote(line[2])
        if room in self.dead:
            return Says(0)
        if room not in self.rooms:
            return _no(403, "M_FORBIDDEN")
        if len(got.body) > _LARGEST - 2_000:  # the envelope counts too
            return _no(413, "M_TOO_LARGE")
        content = json.loads(got.body)
        if content.get("msgtype") != "m.text" or not isinstance(content.get("body"), str):
            return _no(400, "M_BAD_JSON")
        assert content["m.mentions"] == {}, "without it, the old rules look for “@room” in the body"
        self.taken.append(Received(line[0].encode() + got.body, content["body"]))
        if (room, transaction) not in self.transactions:
            event = f"${len(self.events)}"
            if (relation := content.get("m.relates_to")) is not None:
                replaced = self.events[relation["event_id"]]
                assert (relation["rel_type"], replaced["room"]) == ("m.replace", room)
                assert content["m.new_content"]["msgtype"] == "m.text"
                replaced["edited"] = content["m.new_content"]["body"]
            self.events[event] = {"room": room, "body": content["body"], "edited": None}
            self.transactions[room, transaction] = event
        event = self.transactions[room, transaction]
        return Says(200, {"content-type": "application/json"}, json.dumps({"event_id": event}).encode())


def _no(status: int, code: str) -> Says:
    return Says(status, {"content-type": "application/json"}, json.dumps({"errcode": code}).encode())


@asynccontextmanager
async def open_homeserver(*rooms: str) -> AsyncIterator[Homeserver]:
    """A homeserver with these rooms, for as long as this context lasts."""
    async with receiving() as receiver:
        homeserver = Homeserver(receiver, set(rooms))
        receiver.answer = homeserver.take
        yield homeserver
