"""The two layers of a tool call: what a client shows and answers, and what the model sees of it.

A model's call (`call_…`) that waits for a person becomes a client's call (`hitl_…` or `approval_…`) of a
function that begins with `client.`. The model never sees that second layer. It is made from the stored
question, and its result is checked against the stored question; message history is never trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, assert_never

import pydantic

from handraise import (
    Answered,
    Approval,
    Choice,
    Confirm,
    Desk,
    Form,
    InvalidAnswer,
    MultiChoice,
    Open,
    Option,
    Problem,
    Question,
    QuestionNotFound,
    Responder,
)
from handraise.forms import File, form_to_schema
from handraise.model.evidence import CLIENT_ASSERTED
from handraise.model.json_values import Json, canonical_json
from handraise.model.provenance import Provenance
from handraise.model.type_problems import problems_of
from handraise.tools.history import APPROVAL, CLIENT, HITL
from handraise.tools.idempotent_post import origin_of
from handraise.tools.results import chosen_text, to_tool_result
from handraise.tools.tool_arguments import arguments_of

Message = dict[str, Json]
"""A message of OpenAI chat completions."""


def client_message(question: Question) -> Message:
    """The assistant message from which a client shows a question."""
    call_id = _client_call_id(question)
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": _client_name(question), "arguments": canonical_json(_drawing(question))},
            }
        ],
        "toolCallStatus": {call_id: _call_status(question)},
    }


async def pending_client_messages(desk: Desk, conversation: str) -> list[Message]:
    """What a client has to show for a conversation, oldest first; the same after any restart."""
    messages: list[Message] = []
    after = None
    while True:
        page = await desk.list_pending(conversation=conversation, after=after)
        messages += map(client_message, page.items)
        if page.next is None:
            return messages
        after = page.next


class ToolResultSubmission(pydantic.BaseModel):
    """A client's result for one of its calls, with the names of this class or the same in camel case.

    Anything else that a client sends, such as options, is ignored: the stored question counts. A decision `send_back` needs
    a `reason`, which says what to change. `arguments` are edits to an action that is approved. `seen` is how many messages of the question's thread the client has shown:
    an approval must cover all of them. `conversation` is the one that the client is in; a server sets it from its own
    route.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    agent: str = pydantic.Field(validation_alias=pydantic.AliasChoices("agent", "agentId"))
    tool_call_id: str = pydantic.Field(validation_alias=pydantic.AliasChoices("tool_call_id", "toolCallId"))
    decision: Literal["approve", "deny", "send_back"]
    scope: Literal["once", "session", "always"] = "once"
    tool_name: str | None = pydantic.Field(
        default=None, validation_alias=pydantic.AliasChoices("tool_name", "toolName")
    )
    choice: Any = pydantic.Field(default=None, repr=False)
    reason: str | None = pydantic.Field(default=None, repr=False)
    arguments: dict[str, Any] | None = pydantic.Field(
        default=None, repr=False, validation_alias=pydantic.AliasChoices("arguments", "editedArguments")
    )
    seen: int = pydantic.Field(default=0, ge=0)
    conversation: str | None = None


async def submit_tool_result(
    desk: Desk,
    submission: ToolResultSubmission | Mapping[str, Json],
    *,
    by: str | Responder,
) -> Message | None:
    """Take a client's result as this person's answer, and return the message for the model.

    The message has the model's own call id and only the chosen text. None if there is no message for the
    model yet: more people must agree, the call has further questions, it was an approval (its executor
    answers the model), or the question does not come from a model's call. Raises what `answer` raises; a call
    of another agent or another conversation is not found.
    """
    given = _read(submission)
    question = await _called_for(desk, given)
    if problems := list(_problems(given, question)):
        raise InvalidAnswer(problems)
    settled = await _settle(desk, given, question, by)
    if question.tool_call is None or "batch" in origin_of(question) or isinstance(question.form, Approval):
        return None
    if settled.outcome is None:
        return None
    if isinstance(settled.outcome, Answered):
        content = chosen_text(settled, settled.outcome)
    else:
        content = to_tool_result(settled).content
    return {"role": "tool", "tool_call_id": question.tool_call, "content": content}


def _client_call_id(question: Question) -> str:
    return (APPROVAL if isinstance(question.form, Approval) else HITL) + question.id


def _client_name(question: Question) -> str:
    return CLIENT + ("requestApproval" if isinstance(question.form, Approval) else "humanIntervention")


def _call_status(question: Question) -> dict[str, Json]:
    """Whether a client's call is complete and, if somebody answered, with what and when."""
    outcome = question.outcome
    if not isinstance(outcome, Answered):
        return {"complete": outcome is not None}
    result = {"choice": chosen_text(question, outcome), "timestamp": outcome.at.isoformat()}
    return {"complete": True, "result": result}


def _drawing(question: Question) -> dict[str, Json]:
    """The arguments of a client's call: all it needs to show the question, and nothing of the asker's state."""
    form = question.form
    drawing = {
        "agent": question.asker,
        "originalToolCall": _original_call(question),
        "prompt": question.prompt,
        "options": _options(question),
        "context": question.context,
        "kind": form.kind,
    }
    if question.thread:
        drawing["thread"] = question.thread
    if question.replaces is not None:
        drawing["replaces"] = question.replaces
    match form:
        case Choice() | MultiChoice():
            drawing["allowOther"] = form.allow_other
            if any(each.preview or each.recommended for each in form.options):
                drawing["optionDetails"] = [_details_of(each) for each in form.options]
        case Form():
            drawing["schema"] = form_to_schema(form)
        case Approval():
            drawing["editable"] = [entry.name for entry in form.editable]
            if form.brief is not None:
                drawing["brief"] = form.brief.record()
            if form.scopes != ("once",):
                drawing["rememberBy"] = None if form.remember_by is None else list(form.remember_by)
                drawing["rememberFor"] = form.remember_for
        case File():
            drawing["accept"] = list(form.accept)
        case Open() | Confirm():
            pass
        case _:
            assert_never(form)
    return drawing


def _options(question: Question) -> list[str]:
    form = question.form
    match form:
        case Choice() | MultiChoice():
            return [option.label for option in form.options]
        case Confirm():
            return ["yes", "no"]
        case Approval():
            return ["deny", *form.scopes]
        case Open() | File() | Form():
            return []
        case _:
            assert_never(form)


def _details_of(option: Option) -> Json:
    """What the agent says about an option besides its label."""
    return option.model_dump(
        mode="json", include={"description", "preview", "recommended", "reason"}, exclude_none=True
    )


def _original_call(question: Question) -> Json:
    """The model's call that asked a question, or None."""
    if isinstance(question.form, Approval):
        action = question.form.action
        return {"id": question.tool_call, "name": action.tool, "args": action.arguments}
    tool = origin_of(question).get("tool")
    if tool is None:
        return None
    return {"id": question.tool_call, "name": tool, "args": arguments_of(tool, question)}


def _read(submission: ToolResultSubmission | Mapping[str, Json]) -> ToolResultSubmission:
    try:
        return ToolResultSubmission.model_validate(submission)
    except pydantic.ValidationError as error:
        raise InvalidAnswer(problems_of(error, ToolResultSubmission, show_values=False)) from None


async def _called_for(desk: Desk, given: ToolResultSubmission) -> Question:
    """The question of a client's call, if it belongs to this agent and this conversation."""
    prefix = next((each for each in (HITL, APPROVAL) if given.tool_call_id.startswith(each)), None)
    if prefix is not None:
        question = await desk.get(given.tool_call_id.removeprefix(prefix))
        elsewhere = given.conversation is not None and given.conversation != question.conversation
        if (
            given.tool_call_id == _client_call_id(question)
            and given.agent == question.asker
            and not elsewhere
        ):
            return question
    raise QuestionNotFound(given.tool_call_id, desk.workspace)


def _problems(given: ToolResultSubmission, question: Question) -> list[Problem]:
    """What contradicts the stored question, or itself. The desk checks whether the choice fits."""
    problems = []
    if given.tool_name not in (None, _client_name(question)):
        problems.append(Problem("tool_name", f"expected {_client_name(question)}"))
    if given.decision == "send_back":
        said = {"choice": given.choice, "arguments": given.arguments}
        problems += [
            Problem(name, "a question that is sent back has none")
            for name, value in said.items()
            if value is not None
        ]
        if given.scope != "once":
            problems.append(Problem("scope", "only an approval can be remembered"))
        return problems
    if isinstance(question.form, Approval):
        drawn = "deny" if given.decision == "deny" else given.scope
        if given.choice not in (None, drawn):
            problems.append(Problem("choice", f"contradicts the decision and scope, which say {drawn!r}"))
        return problems
    if given.decision == "approve" and given.choice is None:
        problems.append(Problem("choice", "is required"))
    if given.decision == "deny" and given.choice is not None:
        problems.append(Problem("choice", "a refusal to answer has none"))
    if given.scope != "once":
        problems.append(Problem("scope", "only an approval can be remembered"))
    if given.arguments is not None:
        problems.append(Problem("arguments", "only an action has arguments to edit"))
    return problems


async def _settle(
    desk: Desk, given: ToolResultSubmission, question: Question, by: str | Responder
) -> Question:
    provenance = Provenance(
        channel="client", evidence=CLIENT_ASSERTED, seen=given.seen, details=_details(given, question)
    )
    if given.decision == "send_back":
        reason = given.reason or ""  # the desk says that it is missing
        return await desk.send_back(question.id, by=by, reason=reason, provenance=provenance)
    if isinstance(question.form, Approval):
        value = {"decision": given.decision, "reason": given.reason, "arguments": given.arguments}
        if given.scope != "once":
            value["scope"] = given.scope
        return await desk.answer(question.id, value, by=by, provenance=provenance)
    if given.decision == "deny":
        return await desk.decline(question.id, by=by, reason=given.reason, provenance=provenance)
    return await desk.answer(question.id, given.choice, by=by, provenance=provenance)


def _details(given: ToolResultSubmission, question: Question) -> dict[str, Json]:
    """What the history keeps of a client's result besides the answer: the call and the decision."""
    original = _original_call(question) or {"name": None, "args": {}}
    return {
        "tool_call_id": given.tool_call_id,
        "decision": given.decision,
        "scope": given.scope,
        "tool": original["name"],
        "arguments": original["args"],
    }
