"""Where things are: conversations that messages go to, hosts that may see our token, and what a button is about."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from handraise.channels import chat_references
from handraise.channels.chat_references import as_base64, seen_in
from handraise.model.forms import Approval
from handraise.model.json_values import Json, canonical_json
from handraise.model.questions import Draft

CHANNEL = "teams"
SERVICE = "https://smba.trafficmanager.net/teams"
"""Where Microsoft's connector is for everybody; conversations may name their own region below the same host."""
_MICROSOFT = "https://smba.trafficmanager.net"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONVERSATION = re.compile(r"[A-Za-z0-9:@._;=+~-]{1,400}")
_PATH = re.compile(r"(/[A-Za-z0-9_-]{1,100}){0,8}/?")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_COUNT = re.compile(r"[1-9][0-9]{0,2}")
_LONGEST_URL = 300
_LONGEST_LINK = 2_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat or a channel, and the connector that leads to it."""

    service: str
    id: str

    def activities(self, *activity: str) -> str:
        """The address of what is said in it, or of one thing that was."""
        parts = ("v3", "conversations", self.id, "activities", *activity)
        return "/".join((self.service, *(quote(part, safe="") for part in parts)))


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody for whom a chat must be opened first."""

    service: str
    id: str
    tenant: str


class Services:
    """The connectors that may see our token: Microsoft's own, and what the operator names."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        self._named = tuple(map(_trimmed, named))

    @property
    def usual(self) -> str:
        """The one for addresses that name none."""
        return self._named[0] if self._named else SERVICE

    def known(self, url: object) -> str | None:
        """A connector's address as we write it, or None if the token must not go there."""
        if not isinstance(url, str) or not is_service(url):
            return None
        given = _trimmed(url)
        return given if any(_is_below(given, each) for each in (_MICROSOFT, *self._named)) else None


def is_id(text: object) -> bool:
    """Whether this is an id as Microsoft Entra gives them to people and tenants, in lower case."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def is_service(url: str) -> bool:
    """Whether a token could go there at all: over TLS, or no further than this machine."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    bare = not (parts.query or parts.fragment or "@" in parts.netloc or "?" in url or "#" in url)
    return bool(safe and host and bare and _PATH.fullmatch(parts.path))


def read_address(to: Json, services: Services, tenant: str) -> Conversation | Person | None:
    """Where an address leads, or None if it makes no sense."""
    if not isinstance(to, dict):
        return None
    service = services.known(to.get("service_url", services.usual))
    if service is None:
        return None
    match {name: value for name, value in to.items() if name != "service_url"}:
        case {"conversation": str(conversation), **rest} if not rest:
            return Conversation(service, conversation) if _CONVERSATION.fullmatch(conversation) else None
        case {"user": str(user), **rest} if rest.keys() <= {"tenant"}:
            home = rest.get("tenant", tenant)
            return Person(service, user, home) if is_id(user) and is_id(home) else None
        case _:
            return None


def read_conversation(service: str | None, conversation: object) -> Conversation | None:
    """A conversation that something came from or went to, or None if it makes no sense."""
    if service is None or not isinstance(conversation, str) or not _CONVERSATION.fullmatch(conversation):
        return None
    return Conversation(service, conversation)


@dataclass(frozen=True, slots=True)
class QuestionReference(chat_references.QuestionReference):
    """A question, the page where it is, and whatever else belongs to what was pressed."""

    link: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


def build_reference(question: Draft, link: str, **more: Json) -> dict[str, Json]:
    """A place as it is written into something that can be pressed."""
    return {"q": [question.workspace, question.id], "l": link, **more}


class SeenCodes:
    """Says in a card how many messages of a thread it shows, with a code: Teams does not sign what people press."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"handraise teams " + secret.encode()).digest()

    def make(self, question: Draft, seen: int | None) -> dict[str, Json]:
        """What a button carries besides its place; nothing if there is no thread."""
        return {"seen": f"{seen}.{self._code(question, seen)}"} if seen else {}

    def read(self, question: Draft, data: Mapping[str, Any]) -> int:
        """How many messages the card showed whose button sent this; none unless the code is ours."""
        text = data.get("seen")
        count, _, code = text.partition(".") if isinstance(text, str) else ("", "", "")
        seen = seen_in(int(count)) if _COUNT.fullmatch(count) else None
        if seen is None or not hmac.compare_digest(
            self._code(question, seen).encode(), code.encode(errors="replace")
        ):
            return 0
        return seen

    def _code(self, question: Draft, seen: int) -> str:
        about = question.form.digest if isinstance(question.form, Approval) else ""
        what = canonical_json([question.workspace, question.id, about, seen])
        return as_base64(hmac.new(self._key, what.encode(), hashlib.sha256).digest()[:16])


def parse_reference(data: object) -> QuestionReference | None:
    """The place in what Teams sent back, or None if it is not ours."""
    match data:
        case {"q": [str(workspace), str(question_id)], "l": str(link), **rest}:
            more = {str(name): value for name, value in rest.items()}
            found = QuestionReference(workspace, question_id, link, more)
            return found if found.is_readable and _is_link(link) else None
        case _:
            return None


def _is_link(link: str) -> bool:
    return link.startswith(("https://", "http://")) and len(link) <= _LONGEST_LINK and link.isprintable()


def _trimmed(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}".rstrip("/")


def _is_below(given: str, known: str) -> bool:
    return given == known or given.startswith(f"{known}/")
