"""What only a card may call: to see its question again, answer it, ask back, send it back or decline it.

A client shows the card to its user and must not let the model call these tools. That is not relied on. The result of the
call that asked gives the card a key, in a place that clients do not pass on to the model. Each call of the card is signed
with that key, so that who reads the calls of a card cannot make one.
"""

from __future__ import annotations

import functools
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

import anyio
import mcp_types as types
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

from handraise import (
    AlreadySettled,
    Desk,
    HandraiseError,
    PermissionDenied,
    Question,
)
from handraise.errors import ThreadMoved
from handraise.integrations.mcp.card_view import View, problems_of, read_answer, view_of
from handraise.integrations.mcp.client_user import CHANNEL, TO_RECORD, ClientPerson
from handraise.model.evidence import CLIENT_ASSERTED
from handraise.model.json_values import Json
from handraise.model.problems import ProblemsError
from handraise.model.provenance import Provenance
from handraise.presentation.error_text import error_text
from handraise.presentation.thread_text import moved_on
from handraise.presentation.translation import Locale, best_language, gettext, use_locale

URI = "ui://handraise/question"
KEY = "handraise/card"
"""The entry of a result's `_meta` that is for the card."""
STATE, ANSWER, ASK_BACK, SEND_BACK, DECLINE = (
    "card_state",
    "card_answer",
    "card_ask_back",
    "card_send_back",
    "card_decline",
)
_ABOUT = {
    STATE: "Get the question of this card as it is now.",
    ANSWER: "Record what the person answered on this card.",
    ASK_BACK: "Ask the agent what the person wrote on this card.",
    SEND_BACK: "Send the question of this card back to be changed.",
    DECLINE: "Record that the person declined on this card.",
}
TOOLS = frozenset(_ABOUT)
SETTINGS: dict[str, Json] = {"mimeTypes": [APP_MIME_TYPE]}
EXTENSION = EXTENSION_ID
_LONGEST = 500_000
_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "question_id": {"type": "string"},
        "request": {"type": "string", "description": "What is asked for, as JSON."},
        "signature": {
            "type": "string",
            "description": "Of the tool's name and the request, with the card's key.",
        },
    },
    "required": ["question_id", "request", "signature"],
    "additionalProperties": False,
}
_REFUSED = "only the card that a person sees may call this tool, and this call is not signed by it; nothing was changed"


def card_tools() -> list[types.Tool]:
    """The tools of a card, which clients hide from models."""
    return [
        types.Tool(
            name=name,
            description=f"{about} Only for the card.",
            input_schema=_SCHEMA,
            annotations=types.ToolAnnotations(
                read_only_hint=name == STATE, destructive_hint=False, open_world_hint=False
            ),
            _meta={"ui": {"resourceUri": URI, "visibility": ["app"]}},
        )
        for name, about in _ABOUT.items()
    ]


def card_resource() -> types.Resource:
    """The card in a list of resources."""
    return types.Resource(
        uri=URI,
        name="question",
        title="Question",
        description="A question to a person.",
        mime_type=APP_MIME_TYPE,
    )


def card_contents() -> types.TextResourceContents:
    """The page of the card. It loads nothing and connects to nothing."""
    csp: dict[str, Json] = {
        "connectDomains": [],
        "resourceDomains": [],
        "frameDomains": [],
        "baseUriDomains": [],
    }
    return types.TextResourceContents(
        uri=URI, mime_type=APP_MIME_TYPE, text=card_page(), _meta={"ui": {"csp": csp, "prefersBorder": True}}
    )


@functools.cache
def card_page() -> str:
    """The page with its style and script inside."""
    files = resources.files(__package__) / "card"
    page, style, *scripts = (
        (files / name).read_text(encoding="utf-8")
        for name in ("card.html", "card.css", "host.js", "elements.js", "card.js")
    )
    return page.replace("/* style */", style).replace("/* script */", "\n".join(scripts))


@dataclass(frozen=True, slots=True)
class CardKeys:
    """The keys of cards: one for each question and person, made from the secrets of the server."""

    secrets: Sequence[bytes] = field(repr=False)

    @classmethod
    def of(cls, state_keys: Sequence[str | bytes]) -> CardKeys:
        """Keys from secrets that several servers share; without any, for as long as this process runs."""
        given = [each.encode() if isinstance(each, str) else bytes(each) for each in state_keys]
        return cls(tuple(given) or (secrets.token_bytes(32),))

    def key(self, *names: str) -> str:
        """The key for a question and a person, in hexadecimal."""
        return _key(self.secrets[0], names)

    def fits(self, signature: str, tool: str, request: str, *names: str) -> bool:
        """Whether a request was signed with the key for these names."""
        signed = f"{tool}\n{request}".encode("utf-8", "surrogatepass")
        given = signature.encode("utf-8", "surrogatepass")
        expected = [hmac.digest(bytes.fromhex(_key(each, names)), signed, "sha256") for each in self.secrets]
        return any(hmac.compare_digest(given, each.hex().encode()) for each in expected)


def _key(secret: bytes, names: Sequence[str]) -> str:
    text = json.dumps(["handraise card", *names])
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()


@dataclass(frozen=True, slots=True)
class Card:
    """Handles the calls of cards, for the person at the client."""

    desk: Desk
    person: ClientPerson
    keys: CardKeys = field(repr=False)

    def meta(self, question: Question) -> dict[str, Json]:
        """What the card of a question is given in the result of the call that asked."""
        return {KEY: {"question_id": question.id, "key": self.keys.key(*self._names(question.id))}}

    async def call(
        self, tool: str, arguments: Mapping[str, Json], *, is_awaited: bool
    ) -> types.CallToolResult:
        """Do what a card asks for, if it is the card. `is_awaited` says whether a call of the model waits for it."""
        question_id, request = self._signed(tool, arguments)
        with use_locale(Locale(best_language(_text(request, "locale")[:100]))):
            question = await self.person.desk.get(question_id)
            if question.asker != self.desk.asker:
                raise PermissionDenied(self.person.responder.id, "it is a question of another agent")
            problems: list[Json] = []
            try:
                with anyio.fail_after(TO_RECORD, shield=True):  # even if the call ends meanwhile
                    await self._do(tool, question, request)
            except AlreadySettled:
                pass  # somebody was first: the card shows how it ended
            except ProblemsError as misfit:
                problems = problems_of(question.form, misfit.problems)
            except TimeoutError:
                problems = [
                    {"part": None, "text": gettext("That did not work. Try again, or answer in the inbox.")}
                ]
            except ThreadMoved:
                problems = [{"part": None, "text": moved_on(None)}]
            except HandraiseError as error:
                problems = [{"part": None, "text": error_text(str(error))}]
            view = await self._view(question_id)
            return _result(view | {"problems": problems, "tell": not is_awaited})

    def _signed(self, tool: str, arguments: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
        match arguments:
            case {"question_id": str(question_id), "request": str(text), "signature": str(signature)} if (
                len(text) <= _LONGEST
            ):
                if self.keys.fits(signature, tool, text, *self._names(question_id)):
                    try:
                        request = json.loads(text)
                    except (ValueError, RecursionError):
                        request = None
                    if isinstance(request, dict):
                        return question_id, request
            case _:
                pass
        raise PermissionDenied("this caller", _REFUSED)

    def _names(self, question_id: str) -> tuple[str, str, str]:
        return self.desk.workspace, question_id, self.person.responder.id

    async def _do(self, tool: str, question: Question, request: Mapping[str, Json]) -> None:
        if tool == STATE:
            return
        desk, me = self.person.desk, self.person.responder
        seen = request.get("seen")
        if type(seen) is not int or seen != question.thread:
            # So a call that somebody has read cannot be repeated either.
            raise ThreadMoved(question.id, seen=seen if type(seen) is int else 0, thread=question.thread)
        if tool != ASK_BACK and not (await self._view(question.id))["can_answer"]:
            raise PermissionDenied(me.id, "this is not answered on a card")
        provenance = Provenance(channel=CHANNEL, evidence=CLIENT_ASSERTED, seen=seen)
        match tool:
            case "card_answer":
                value = read_answer(question.form, request)
                await desk.answer(question.id, value, by=me, provenance=provenance)
            case "card_ask_back":
                await desk.ask_back(question.id, _text(request, "text"), by=me, provenance=provenance)
            case "card_send_back":
                await desk.send_back(question.id, by=me, reason=_text(request, "text"), provenance=provenance)
            case _:
                await desk.decline(
                    question.id, by=me, reason=_text(request, "text").strip() or None, provenance=provenance
                )

    async def _view(self, question_id: str) -> View:
        desk = self.person.desk
        question = await desk.get(question_id)
        thread = await desk.thread(question_id) if question.thread else ()
        may_answer = question.outcome is None and await self.person.may_answer(question)
        return view_of(question, thread, viewer=self.person.responder.id, may_answer=may_answer)


def _text(request: Mapping[str, Json], name: str) -> str:
    found = request.get(name)
    return found if isinstance(found, str) else ""


def _result(view: View) -> types.CallToolResult:
    text = gettext("Does not fit:") if view["problems"] else view["status"]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=view, is_error=False
    )
