"""The MCP server: a call becomes a question, which the client's user may answer right there, or anybody elsewhere.

The record decides. A form in a client is one more view of it: the first answer counts, wherever it is given, and a
question that outlives its call comes back by its id. A client that shows cards gets a card instead of a form, and the
call returns at once, because a card is given what it needs in the result. In the protocol of 2025 and before, the form is a request in the
middle of the call; in that of 2026-07-28 it is a result, and the call comes again with what was filled in.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp_types as types
import pydantic
from mcp.server import Server, ServerRequestContext
from mcp.server.apps import client_supports_apps
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handraise import (
    Approval,
    Desk,
    HandraiseError,
    InvalidQuestion,
    PermissionDenied,
    Problem,
    Question,
    QuestionNotFound,
    __version__,
)
from handraise.forms import Risk
from handraise.integrations.mcp import card_calls
from handraise.integrations.mcp.client_user import ClientPerson, Taken
from handraise.integrations.mcp.elicitation import Elicitation, Unshowable, elicitation_of
from handraise.integrations.mcp.tools import (
    APPROVE,
    ASK,
    COLLECT,
    SPECS,
    SPECS_WITH_TOPICS,
    Call,
    invalid,
    read_call,
    told,
)
from handraise.model.durations import Span, seconds_of
from handraise.model.json_values import Json
from handraise.tools import AskTool, Interrupt
from handraise.tools.asked_back import settled_or_asked_back
from handraise.tools.reply_tool import reply_once

_log = logging.getLogger(__name__)

WAIT = 50.0
"""How long a call waits: many clients give up after a minute."""
_INPUT = "answer"
_MOST_ROUNDS = 3
_MOST_DISMISSED = 10_000
_STATE_LASTS = 7 * 86_400.0
_HIGH_RISK = "Its risk is high, so a person decides it in the inbox or in the terminal, not at this client."
_ON_CARD = "It is shown to the person as a card in this conversation, and you are told there when it is answered: do not poll."

Context = ServerRequestContext[Any, Any]


def mcp_server(
    desk: Desk,
    *,
    person: ClientPerson | None = None,
    conversation: str = "mcp",
    recipients: Sequence[str] = (),
    wait: Span = WAIT,
    expires_in: Span | None = None,
    least_risk: Risk = "medium",
    topics: bool = False,
    assume_cards: bool = False,
    state_keys: Sequence[str | bytes] = (),
) -> Server[Any]:
    """Make a server with the tools, which asks in the name of the desk's asker.

    A call waits for at most `wait`. With a `person`, clients that support MCP Apps show them the question as a card, and
    clients that support elicitation as a form; their answer is only asserted by the client, which is too weak to approve
    an action of high risk. With `assume_cards`, a client that does not declare MCP Apps gets cards too. Every
    action has at least the risk `least_risk`, whatever a model says. With `topics`, a model may give its question a
    topic: equal questions of other agents with the same topic are asked once. `state_keys` are secrets of at least 32
    bytes that all servers behind one address share; without them a form or card that was shown before a restart
    cannot be sent after it.
    """
    if person is not None and person.responder.id == desk.asker:
        raise PermissionDenied(desk.asker, "the asker cannot answer")
    card = None if person is None else card_calls.Card(desk, person, card_calls.CardKeys.of(state_keys))
    calls = Calls(
        desk,
        person=person,
        card=card,
        assume_cards=assume_cards,
        conversation=conversation,
        recipients=recipients,
        wait=seconds_of(wait),
        expires_in=expires_in,
        least_risk=least_risk,
        topics=topics,
    )
    server = AskingServer(
        "handraise",
        version=__version__,
        instructions="Ask people, and get their approval before dangerous actions. Silence is never consent.",
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
        on_list_resources=None if card is None else calls.list_resources,
        on_read_resource=None if card is None else calls.read_resource,
    )
    server.person = person
    if card is not None:
        server.extensions[card_calls.EXTENSION] = {}
    security = (
        RequestStateSecurity(keys=list(state_keys), ttl=_STATE_LASTS)
        if state_keys
        else RequestStateSecurity.ephemeral(ttl=_STATE_LASTS)
    )
    server.middleware.append(RequestStateBoundary(security, default_audience=f"handraise:{desk.workspace}"))
    return server


class AskingServer(Server[Any]):
    """A server with the tools, and who may answer at its clients."""

    person: ClientPerson | None = None


@dataclass(frozen=True, slots=True)
class _Round:
    """State that a client sends back. It is sealed, and only its id is used."""

    question_id: str
    number: int = 0
    seen: int = 0
    """How many messages of its thread were shown."""

    def write(self) -> str:
        return json.dumps([self.question_id, self.number, self.seen])

    @classmethod
    def read(cls, text: str | None) -> _Round | None:
        if text is None:
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        match found:
            case [str(question_id), int(number), int(seen)]:
                return cls(question_id, number, seen)
            case [str(question_id), int(number)]:  # from an earlier release
                return cls(question_id, number)
            case _:
                raise _bad_state()


class Calls:
    """Handles the calls. Everything that it keeps in memory may be lost."""

    def __init__(
        self,
        desk: Desk,
        *,
        person: ClientPerson | None,
        card: card_calls.Card | None,
        assume_cards: bool,
        conversation: str,
        recipients: Sequence[str],
        wait: float,
        expires_in: Span | None,
        least_risk: Risk,
        topics: bool,
    ) -> None:
        self._desk = desk
        self._person = person
        self._card = card
        self._assume_cards = assume_cards
        self._conversation = conversation
        self._recipients = recipients
        self._wait = wait
        self._expires_in = expires_in
        self._least_risk = least_risk
        self._topics = topics
        self._dismissed: dict[str, None] = {}
        self._waiting: Counter[str] = Counter()

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The four tools, and those of cards if the client shows cards."""
        del params
        shows_cards = self._card_at(ctx) is not None
        ui = {"ui": {"resourceUri": card_calls.URI, "visibility": ["model"]}}
        tools = [
            types.Tool(
                name=spec.name,
                description=spec.description,
                input_schema=spec.parameters,
                annotations=types.ToolAnnotations(destructive_hint=False, open_world_hint=True),
                _meta=ui if shows_cards and spec.name in (ASK, APPROVE) else None,
            )
            for spec in (SPECS_WITH_TOPICS if self._topics else SPECS).values()
        ]
        return types.ListToolsResult(tools=[*tools, *(card_calls.card_tools() if shows_cards else ())])

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """The page of the card, if the client shows cards."""
        del params
        found = [card_calls.card_resource()] if self._card_at(ctx) is not None else []
        return types.ListResourcesResult(resources=found)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """The page of the card: it is the same for every question."""
        del ctx
        if params.uri != card_calls.URI:
            raise MCPError(code=types.INVALID_PARAMS, message="There is no such resource.")
        return types.ReadResourceResult(contents=[card_calls.card_contents()])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Ask or collect. The model gets errors in words, and never as an approval."""
        card = self._card_at(ctx) if params.name in card_calls.TOOLS else None
        if params.name not in SPECS and card is None:
            raise MCPError(code=types.INVALID_PARAMS, message="There is no such tool.")
        try:
            if card is not None:
                return await self._call_card(card, params.name, params.arguments or {})
            call = read_call(params.name, params.arguments or {}, least_risk=self._least_risk)
            return await self._call(ctx, call, params)
        except InvalidQuestion as refusal:
            return _result(invalid(params.name, refusal.problems), failed=True)
        except HandraiseError as error:
            return _result({"status": "failed", "code": error.code, "reason": str(error)}, failed=True)
        except MCPError:
            raise
        except Exception:  # noqa: BLE001 -- it may contain secrets: a client gets none of it
            _log.exception("%s failed", params.name)
            raise MCPError(code=types.INTERNAL_ERROR, message="Internal error") from None

    async def _call_card(
        self, card: card_calls.Card, tool: str, arguments: dict[str, Json]
    ) -> types.CallToolResult:
        is_awaited = self._waiting[str(arguments.get("question_id"))] > 0
        return await card.call(tool, arguments, is_awaited=is_awaited)

    def _card_at(self, ctx: Context) -> card_calls.Card | None:
        """Cards for the client's user; None if the client does not show them."""
        return self._card if self._assume_cards or client_supports_apps(ctx) else None

    async def _call(
        self, ctx: Context, call: Call, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        came_back = _Round.read(params.request_state)
        question = await self._question(ctx, call, came_back)
        if call.reply is not None:
            question = await reply_once(self._desk, question, call.reply)
        wait = self._wait if call.wait is None else min(call.wait, self._wait)
        where = _HIGH_RISK if _is_high(question) else None
        card = self._card_at(ctx)
        if card is not None and call.tool != COLLECT:
            # A card is shown at once, but is given its key only now.
            parts = await told(self._desk, await self._desk.get(question.id), where=where or _ON_CARD)
            return _result(parts, meta=card.meta(question) if call.intent is not None else None)
        elicitation = await self._elicitation(ctx, question) if wait and card is None else None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Input without our seal was not requested, and is ignored.
            given = (params.input_responses or {}).get(_INPUT) if came_back else None
            taken = Taken()
            if came_back and elicitation is not None and isinstance(given, types.ElicitResult):
                taken = await self._take(question, replace(elicitation, seen=came_back.seen), given)
            number = (came_back.number if came_back else 0) + (1 if taken.problems else 0)
            if elicitation is not None and (given is None or taken.problems) and number < _MOST_ROUNDS:
                state = _Round(question.id, number, elicitation.seen)
                return _input_required(elicitation, taken.problems, state)
            where = taken.refused or where
            await self._settled(question.id, wait)
        elif elicitation is not None and ctx.session.can_send_request:
            where = await self._settled_or_elicited(ctx, question, elicitation, wait) or where
        else:
            await self._settled(question.id, wait)
        return _result(await told(self._desk, await self._desk.get(question.id), where=where))

    async def _question(self, ctx: Context, call: Call, came_back: _Round | None) -> Question:
        """The question of a call: the one that was shown for it before, that it names, or that it asks now."""
        if call.intent is None or came_back is not None:
            question = await self._desk.get(came_back.question_id if came_back else call.question_id or "")
            if not self._is_of(question, call):
                raise _bad_state() if came_back else QuestionNotFound(question.id, self._desk.workspace)
            return question
        intent = call.intent
        tool = AskTool(
            SPECS[call.tool],
            lambda _: (intent,),
            desk=self._desk,
            conversation=self._conversation,
            emit=None,
            expires_in=self._expires_in,
            recipients=self._recipients,
            topics=self._topics and call.tool == ASK,
        )
        tool.let_people_ask_back()
        asked = await tool.start({}, call_id=_call_id(ctx, call))
        if isinstance(asked, Interrupt):
            return await self._desk.get(asked.question_ids[0])
        if asked.question_id is None:
            raise InvalidQuestion(asked.problems)
        return await self._desk.get(asked.question_id)

    def _is_of(self, question: Question, call: Call) -> bool:
        """Whether one of these tools asked the question, and for the same content if the call has some."""
        if (question.asker, question.conversation) != (self._desk.asker, self._conversation):
            return False
        match question.state:
            case {"tool": str(tool), "digest": str(digest)} if tool in SPECS:
                if call.intent is None:
                    return question.id == call.question_id
                return (tool, digest) == (call.tool, call.intent.digest)
            case _:
                return False

    async def _elicitation(self, ctx: Context, question: Question) -> Elicitation | None:
        """How the client's user is shown the question; None if they are not."""
        if self._person is None or question.outcome is not None or _is_high(question):
            return None
        if question.is_askers_turn:
            return None
        if question.id in self._dismissed or not _elicits(ctx.session.client_capabilities):
            return None
        try:
            thread = await self._person.desk.thread(question.id) if question.thread else ()
            elicitation = elicitation_of(question, version=ctx.protocol_version, thread=thread)
        except Unshowable as why:
            _log.info("question %s is not shown at the client: %s", question.id, why)
            return None
        return elicitation if await self._person.may_answer(question) else None

    async def _settled(self, question_id: str, wait: float) -> None:
        self._waiting[question_id] += 1
        try:
            await settled_or_asked_back(self._desk, question_id, timeout=wait)
        finally:
            self._waiting[question_id] -= 1
            if not self._waiting[question_id]:
                del self._waiting[question_id]

    async def _settled_or_elicited(
        self, ctx: Context, question: Question, elicitation: Elicitation, wait: float
    ) -> str | None:
        """Wait while the client shows the question; return why its answer was refused, if it was."""
        refused: str | None = None
        failed: HandraiseError | None = None

        async def elicit() -> None:
            nonlocal refused
            shown = elicitation
            for _ in range(_MOST_ROUNDS):
                try:
                    given = await ctx.session.elicit_form(shown.message, shown.schema, ctx.request_id)
                except (MCPError, pydantic.ValidationError) as failure:
                    _log.info("the client has not shown %s: %s", question.id, type(failure).__name__)
                    return
                taken = await self._take(question, elicitation, given)
                if not taken.problems:
                    refused = taken.refused
                    if taken.is_over:
                        waiting.cancel()
                    return
                shown = elicitation.again(taken.problems)

        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as waiting:
                group.start_soon(elicit)
                try:
                    await self._settled(question.id, wait)
                except HandraiseError as error:
                    failed = error
            # Settled or asked back elsewhere, or timed out: tell the client that its form is no longer needed.
            group.cancel_scope.cancel()
        if failed is not None:
            raise failed
        return refused

    async def _take(self, question: Question, elicitation: Elicitation, given: types.ElicitResult) -> Taken:
        taken = await self._person.take(question, elicitation, given) if self._person else Taken()
        if taken.dismissed or taken.refused is not None:
            self._dismiss(question.id)
        return taken

    def _dismiss(self, question_id: str) -> None:
        """Do not show it at the client again: a person who closed a form does not want it back each time."""
        self._dismissed[question_id] = None
        if len(self._dismissed) > _MOST_DISMISSED:
            del self._dismissed[next(iter(self._dismissed))]


def _is_high(question: Question) -> bool:
    return isinstance(question.form, Approval) and question.form.risk == "high"


def _elicits(capabilities: types.ClientCapabilities | None) -> bool:
    """Whether a client can show forms; one that says nothing about modes can."""
    found = capabilities.elicitation if capabilities else None
    return found is not None and (found.form is not None or found.url is None)


def _call_id(ctx: Context, call: Call) -> str | None:
    """The permanent name of a call: the model's own key, or a request of a session over HTTP.

    A request id alone is not unique: every client counts from one.
    """
    if call.key is not None:
        return f"key:{call.key}"
    if ctx.request is None or ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return None  # nobody has verified the session there
    session = ctx.request.headers.get("mcp-session-id")
    return f"http:{session}:{ctx.request_id}" if session else None


def _input_required(
    elicitation: Elicitation, problems: Sequence[Problem], state: _Round
) -> types.InputRequiredResult:
    shown = elicitation.again(problems) if problems else elicitation
    params = types.ElicitRequestFormParams(message=shown.message, requested_schema=shown.schema)
    return types.InputRequiredResult(
        input_requests={_INPUT: types.ElicitRequest(params=params)}, request_state=state.write()
    )


def _result(
    parts: dict[str, Json], *, failed: bool = False, meta: dict[str, Json] | None = None
) -> types.CallToolResult:
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    # A path can contain what a model sent, which may not be valid text.
    safe = text.encode("utf-8", "backslashreplace").decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=safe)],
        structured_content=json.loads(safe),
        is_error=failed,
        _meta=meta,
    )


def _bad_state() -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message="Invalid or expired requestState")
