"""The four tools: their descriptions for a model, how its arguments are read, and the results for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from handraise import (
    Answered,
    Approval,
    Choice,
    Desk,
    InvalidQuestion,
    MultiChoice,
    NotApproved,
    Open,
    Problem,
    Question,
)
from handraise.errors import AlreadyConsumed
from handraise.forms import AnyForm, Brief, Link, Risk, coerce_choices, form_from_schema
from handraise.model.json_values import Json, json_problems
from handraise.tools import Intent, ToolSpec, to_tool_result
from handraise.tools.ask_specs import OPTION, REPLACES, with_topic
from handraise.tools.asked_back import messages_to_model
from handraise.tools.reply_tool import REPLY, Reply

ASK = "ask_human"
APPROVE = "request_approval"
COLLECT = "collect_answer"

_DEEPEST = 64
_RISKS: tuple[Risk, ...] = ("low", "medium", "high")
_NOTES = {
    "answered": None,
    "declined": "A person declined to answer. That is not an answer, and not consent.",
    "expired": "Nobody answered in time. That is not an answer, and not consent.",
    "withdrawn": "The question was withdrawn. There is no answer.",
    "exhausted": "Too many answers did not fit, so there is none.",
    "undelivered": "Nobody could be shown the question. There is no answer.",
}

_Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
_Wait = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]


class _Arguments(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    wait_seconds: _Wait | None = None


class _Ask(_Arguments):
    question: _Text
    choices: Any = None
    multiple: bool = False
    allow_other: bool = False
    form: dict[str, Any] | None = pydantic.Field(default=None, alias="schema")
    context: Any = None
    key: _Text | None = None
    replaces: _Text | None = None
    topic: _Text | None = None


class _Approve(_Arguments):
    action: _Text
    arguments: dict[str, Any] = pydantic.Field(default_factory=dict)
    why: _Text | None = None
    checked: list[str] = pydantic.Field(default_factory=list)
    reversible: bool | None = None
    affects: _Text | None = None
    links: list[Link] = pydantic.Field(default_factory=list)
    editable: list[str] = pydantic.Field(default_factory=list)
    risk: Literal["low", "medium", "high"] = "low"
    key: _Text | None = None
    replaces: _Text | None = None


class _Collect(_Arguments):
    question_id: _Text


class _Reply(_Arguments, Reply):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A model's parsed call: a question to ask, or the id of one that was asked, perhaps with a reply about it."""

    tool: str
    intent: Intent | None = None
    question_id: str | None = None
    reply: Reply | None = None
    key: str | None = None
    wait: float | None = None


def read_call(tool: str, arguments: dict[str, Json], *, least_risk: Risk) -> Call:
    """Parse a model's call, or raise `InvalidQuestion` with every problem. An action has at least `least_risk`."""
    if problems := list(json_problems(arguments, "", depth=_DEEPEST)):
        raise InvalidQuestion(problems)
    if tool == COLLECT:
        wanted = _validated(_Collect, arguments)
        return Call(tool=tool, question_id=wanted.question_id, wait=wanted.wait_seconds)
    if tool == REPLY.name:
        reply = _validated(_Reply, arguments)
        return Call(tool=tool, question_id=reply.question_id, reply=reply, wait=reply.wait_seconds)
    if tool == APPROVE:
        action = _validated(_Approve, arguments)
        return Call(tool=tool, intent=_approval(action, least_risk), key=action.key, wait=action.wait_seconds)
    given = _validated(_Ask, arguments)
    intent = Intent(
        prompt=given.question,
        form=_form(given),
        context=given.context,
        replaces=given.replaces,
        topic=given.topic,
    )
    return Call(tool=tool, intent=intent, key=given.key, wait=given.wait_seconds)


def _approval(given: _Approve, least_risk: Risk) -> Intent:
    if unknown := [name for name in given.editable if name not in given.arguments]:
        raise InvalidQuestion([Problem("editable", f"there is no argument {name!r}") for name in unknown])
    brief = _brief(given)
    form = Approval.of(
        given.action,
        given.arguments,
        editable=given.editable,
        risk=max(given.risk, least_risk, key=_RISKS.index),
        brief=brief,
    )
    return Intent(
        prompt=f"May I run {given.action}?",
        form=form,
        context=given.why if brief is None else None,
        replaces=given.replaces,
    )


def _brief(given: _Approve) -> Brief | None:
    """What the model says about an action. If that is only why, it is the context, as in calls of older models."""
    if not (given.checked or given.links or given.affects) and given.reversible is None:
        return None
    return Brief(
        why=given.why,
        checked=tuple(given.checked),
        reversible=given.reversible,
        affects=given.affects,
        links=tuple(given.links),
    )


def _form(given: _Ask) -> AnyForm:
    if given.form is not None:
        if given.choices is not None:
            raise InvalidQuestion([Problem("schema", "give choices or a schema, not both")])
        return form_from_schema(given.form)
    if given.choices is None:
        if given.multiple or given.allow_other:
            raise InvalidQuestion([Problem("choices", "are needed to choose from")])
        return Open()
    options = coerce_choices(given.choices)
    if not options:
        raise InvalidQuestion([Problem("choices", "none of these has a readable label; send short texts")])
    if given.multiple:
        return MultiChoice(options=options, allow_other=given.allow_other)
    return Choice(options=options, allow_other=given.allow_other)


async def told(desk: Desk, question: Question, *, where: str | None = None) -> dict[str, Json]:
    """The result for the model; an approved action is returned to the first caller only.

    `where` says where else it is decided, if not at the client.
    """
    result = to_tool_result(question, messages=await messages_to_model(desk, question))
    parts: dict[str, Json] = json.loads(result.content)
    if evidence := getattr(question.outcome, "evidence", None):
        parts["evidence"] = evidence
    if isinstance(question.form, Approval):
        parts = await _told_approval(desk, question, parts)
    if result.status == "asked_back":
        parts["note"] = parts.pop("reason")
    elif question.outcome is None:
        parts["note"] = " ".join(
            filter(
                None,
                (
                    "Nobody has answered yet, and silence is not consent.",
                    where,
                    f"The question stays open: go on with something else, then call {COLLECT} with its question_id.",
                    "Do not ask it in other words.",
                ),
            )
        )
    elif note := _NOTES.get(parts["status"]):
        parts["note"] = note
    return parts


async def _told_approval(desk: Desk, question: Question, parts: dict[str, Json]) -> dict[str, Json]:
    """The same for an action: it never reads like an approval unless the action may be executed now."""
    for name in ("value", "text"):
        parts.pop(name, None)
    parts["approved"] = False
    decision = question.decision
    if decision is None or not isinstance(question.outcome, Answered):
        return parts
    if not decision.approved:
        reason = {} if decision.reason is None else {"reason": decision.reason}
        return {**parts, **reason, "note": "A person denied the action: do not execute it."}
    try:
        action = await desk.consume_approval(question.id)
    except (AlreadyConsumed, NotApproved) as refusal:
        return {**parts, "reason": str(refusal), "note": "Do not execute the action."}
    return {
        **parts,
        "approved": True,
        "edited": decision.edited,
        "action": {"tool": action.tool, "arguments": action.arguments},
        "note": "Execute exactly this action with exactly these arguments, once and now.",
    }


def invalid(tool: str, problems: Sequence[Problem]) -> dict[str, Json]:
    """The result for the model if its arguments cannot be asked."""
    found = [{"path": each.path.replace("call_id", "key"), "message": each.message} for each in problems]
    return {
        "status": "invalid",
        "problems": found,
        "note": f"{'Nothing was replied' if tool == REPLY.name else 'Nobody was asked'}. Correct these problems and call "
        f"{tool} again.",
    }


_Read = TypeVar("_Read", bound=_Arguments)


def _validated(kind: type[_Read], arguments: dict[str, Json]) -> _Read:
    try:
        return kind.model_validate(arguments)
    except pydantic.ValidationError as error:
        known = {"missing": "is required", "extra_forbidden": "there is no such parameter; leave it out"}
        raise InvalidQuestion(
            [
                Problem(".".join(map(str, each["loc"])), known.get(each["type"], each["msg"]))
                for each in error.errors(include_url=False, include_input=False, include_context=False)
            ]
        ) from None


_KEY = {
    "type": "string",
    "description": "A name for this call. A call with the same name is the same question, even if it "
    "has been answered meanwhile.",
}
_WAIT = {
    "type": "number",
    "minimum": 0,
    "description": "How long to wait for the answer. With 0 the question is posted and the call returns at once.",
}

SPECS = {
    ASK: ToolSpec(
        ASK,
        "Ask a person what you cannot find out or decide yourself. Waits a while for the answer; if none comes, "
        f"the status is still_pending and {COLLECT} gets it later. Put what can be chosen into choices, never into "
        f"the text. This is not an approval: before a dangerous action call {APPROVE}.",
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "What you want to know."},
                "choices": {
                    "type": "array",
                    "items": OPTION,
                    "description": "What can be chosen. Leave it out for an answer in their own words.",
                },
                "multiple": {"type": "boolean", "description": "Whether several choices may be chosen."},
                "allow_other": {
                    "type": "boolean",
                    "description": "Whether they may write something of their own instead.",
                },
                "schema": {
                    "type": "object",
                    "description": "Instead of choices: a flat JSON Schema of an object whose properties are texts, "
                    "numbers, booleans or enums.",
                },
                "context": {"description": "What they should know to answer well: a text, or JSON."},
                "key": _KEY,
                "replaces": REPLACES,
                "wait_seconds": _WAIT,
            },
            "required": ["question"],
            "additionalProperties": False,
        },
    ),
    APPROVE: ToolSpec(
        APPROVE,
        "Ask a person to approve an action before you execute it. If approved is true, execute exactly the action "
        "that comes back, once; its arguments may have been edited. Anything else is not an approval.",
        {
            "type": "object",
            "properties": {
                "action": {"type": "string", "description": "The name of the tool or action."},
                "arguments": {"type": "object", "description": "All of its arguments, as they will be used."},
                "why": {"type": "string", "description": "Why you want to do it."},
                "checked": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "What you have checked, one short text each.",
                },
                "reversible": {"type": "boolean", "description": "Whether it can be undone."},
                "affects": {
                    "type": "string",
                    "description": "Whom or what it concerns, such as: 1 customer.",
                },
                "links": {
                    "type": "array",
                    "description": "Where they can read more.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string", "description": "What is there."},
                            "url": {"type": "string", "description": "Begins with https:// or http://"},
                        },
                        "required": ["label", "url"],
                        "additionalProperties": False,
                    },
                },
                "editable": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Names of arguments that the person may change.",
                },
                "risk": {
                    "type": "string",
                    "enum": list(_RISKS),
                    "description": "How much harm it could do.",
                },
                "key": _KEY,
                "replaces": REPLACES,
                "wait_seconds": _WAIT,
            },
            "required": ["action", "arguments"],
            "additionalProperties": False,
        },
    ),
    COLLECT: ToolSpec(
        COLLECT,
        f"Get the answer to a question that {ASK} or {APPROVE} left pending, by its question_id, also in another "
        "session. An approved action is returned only once.",
        {
            "type": "object",
            "properties": {
                "question_id": {"type": "string", "description": "The question_id of the earlier result."},
                "wait_seconds": _WAIT,
            },
            "required": ["question_id"],
            "additionalProperties": False,
        },
    ),
    REPLY.name: ToolSpec(
        REPLY.name,
        f"{REPLY.description} Waits a while for it, as {COLLECT} does.",
        {**REPLY.parameters, "properties": {**REPLY.parameters["properties"], "wait_seconds": _WAIT}},
    ),
}
"""The four tools by name, without topics."""

SPECS_WITH_TOPICS = {**SPECS, ASK: with_topic(SPECS[ASK])}
"""The same if a model may give a topic."""
