"""The real MCP client, in both eras, and the people at it and elsewhere."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
import pydantic
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp_types._v2025_11_25 import PrimitiveSchemaDefinition

from handraise import Desk, Question, Responder, open_desk
from handraise.integrations.mcp import ClientPerson, mcp_server
from handraise.model.visible import visible

PRIMITIVE: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(PrimitiveSchemaDefinition)
LEGACY, MODERN = "legacy", "auto"
ERAS = {LEGACY: "2025-11-25", MODERN: "2026-07-28"}
SOON = 20.0

Form = types.ElicitRequestFormParams
Filled = types.ElicitResult


def accept(**content: Any) -> Filled:
    """What a client sends for a form that was filled in, whatever is in it."""
    return Filled.model_construct(action="accept", content=content, meta=None)


DECLINE, CANCEL = Filled(action="decline"), Filled(action="cancel")


@dataclass
class AtClient:
    """The user of a client: fills in forms in turn, and closes those for which nothing was said."""

    fills: list[Any] = field(default_factory=list)
    """Each is what to send, or a coroutine function that gives it."""
    shown: list[Form] = field(default_factory=list)

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> Filled:
        del context
        assert isinstance(params, Form)
        check_form(params)
        self.shown.append(params)
        if not self.fills:
            return CANCEL
        fill = self.fills.pop(0)
        filled: Filled = fill if isinstance(fill, types.ElicitResult) else await fill()
        return filled


ALLOWED = {
    "string": {"format", "minLength", "maxLength", "oneOf", "enum", "enumNames"},
    "number": {"minimum", "maximum"},
    "integer": {"minimum", "maximum"},
    "boolean": set(),
    "array": {"items", "minItems", "maxItems"},
}
"""What the specification lets a property of a form have, besides its type, title, description and default."""


def check_form(form: Form) -> None:
    """What a strict client would refuse to show, or a person could not see, fails."""
    schema = form.requested_schema
    assert schema.keys() == {"type", "properties", "required"}
    assert set(schema["required"]) <= set(schema["properties"])
    texts = [form.message, *schema["properties"]]
    for part in schema["properties"].values():
        PRIMITIVE.validate_python(part)
        assert part.keys() - {"type", "title", "description", "default"} <= ALLOWED[part["type"]], part
        options = part.get("oneOf") or part.get("items", {}).get("anyOf") or []
        assert all(option.keys() == {"const", "title"} for option in options)
        texts += [option[name] for option in options for name in ("const", "title")]
        texts += [part[name] for name in ("title", "description") if name in part]
        texts += [part["default"]] if isinstance(part.get("default"), str) else []
    for text in texts:
        assert visible(text) == text, f"{text!r} hides something"


@dataclass
class Table:
    """A desk on which a server asks, and a client that is connected to it."""

    desk: Desk
    client: Client
    user: AtClient

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a call gives to the model."""
        async with asyncio.timeout(SOON):
            result = await self.client.call_tool(tool, arguments)
        return parts_of(result)

    async def raw(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        given: Filled | None = None,
        state: str | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """One request as a client of 2026-07-28 sends it; nothing is done for it."""
        async with asyncio.timeout(SOON):
            return await self.client.session.call_tool(
                tool,
                arguments,
                input_responses=None if given is None else {"answer": given},
                request_state=state,
                allow_input_required=True,
            )

    async def asked(self, number: int = 1) -> list[Question]:
        """So many pending questions, as soon as they are there."""
        async with asyncio.timeout(SOON):
            while len(found := (await self.desk.list_pending()).items) < number:
                await asyncio.sleep(0.01)
        assert len(found) == number
        return list(found)

    async def all(self) -> list[Question]:
        """Every question that was ever asked."""
        return [*(await self.desk.list_pending()).items, *(await self.desk.list_settled()).items]

    async def card(self, tool: str, **arguments: Any) -> OnCard:
        """Ask with a tool, as the card that is shown for it."""
        async with asyncio.timeout(SOON):
            result = await self.client.call_tool(tool, arguments)
        parts_of(result)
        return OnCard(self, **(result.meta or {})["handraise/card"])


@dataclass
class OnCard:
    """What the card of a question does: the key is from the result's `_meta`, and each call is signed."""

    table: Table
    question_id: str
    key: str

    def signed(self, tool: str, request: str) -> dict[str, str]:
        """The arguments of a call of the card."""
        mac = hmac.digest(bytes.fromhex(self.key), f"{tool}\n{request}".encode(), "sha256")
        return {"question_id": self.question_id, "request": request, "signature": mac.hex()}

    async def __call__(self, tool: str, **request: Any) -> dict[str, Any]:
        """Call a tool of the card, and return what it shows then."""
        async with asyncio.timeout(SOON):
            result = await self.table.client.call_tool(tool, self.signed(tool, json.dumps(request)))
        assert not result.is_error, result
        view: dict[str, Any] = result.structured_content
        return view


def parts_of(result: types.CallToolResult | types.InputRequiredResult) -> dict[str, Any]:
    """What a result says; its text and its structure say the same."""
    assert isinstance(result, types.CallToolResult)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    parts: dict[str, Any] = json.loads(content.text)
    assert result.structured_content == parts
    return parts


@asynccontextmanager
async def table(
    era: str,
    *,
    user: AtClient | None = None,
    cards: bool = False,
    url: str = "memory:",
    person: str | None = "ana",
    desk_options: dict[str, Any] | None = None,
    change: Callable[[Desk], Desk] = lambda desk: desk,
    **options: Any,
) -> AsyncIterator[Table]:
    """A client of this era at a server in this process; a `user` is there for a client that can show forms.

    With `cards`, the client says that it can show cards.
    """
    async with open_desk(url, poll_interval=0.05, **(desk_options or {})) as desk:
        at_client = None if person is None else ClientPerson(desk, Responder(person))
        server = mcp_server(change(desk), person=at_client, **{"wait": SOON, **options})
        extensions = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})] if cards else []
        async with Client(server, mode=era, elicitation_callback=user, extensions=extensions) as client:
            assert client.protocol_version == ERAS[era]
            yield Table(desk, client, user or AtClient())
