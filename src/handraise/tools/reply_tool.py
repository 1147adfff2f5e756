"""The tool with which a model replies to a person who asks back, `reply_to_person`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import pydantic

from handraise import AlreadySettled, Desk, InvalidQuestion, Problem, Question, QuestionNotFound
from handraise.errors import InvalidMessage, NothingToReply
from handraise.model.durations import Span
from handraise.model.json_values import Json
from handraise.model.thread_messages import replied_to
from handraise.tools.approved_tool import ApprovedTool
from handraise.tools.ask_tools import AskTool
from handraise.tools.results import REPLY_TO_PERSON, ToolResult, invalid_result
from handraise.tools.tool_arguments import Arguments, json_object
from handraise.tools.tool_events import Interrupt, event_of
from handraise.tools.tool_spec import ToolSpec

_Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]


class Reply(pydantic.BaseModel):
    """A model's reply. `message` is the number of the last message that it has read."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    question_id: _Text
    message: Annotated[int, pydantic.Field(ge=1)]
    text: _Text


class ReplyTool:
    """The tool `reply_to_person` for the questions of some other tools.

    Its result is that of the call that asked the question, or `asked_back` again.
    """

    def __init__(self, tools: Sequence[AskTool | ApprovedTool]) -> None:
        if not tools:
            raise TypeError("reply_to_person needs the tools whose questions people may ask back about.")
        self.spec = REPLY
        self._tools = tuple(tools)
        for tool in tools:
            tool.let_people_ask_back()

    def answers_to(self, name: str) -> bool:
        """Whether this is the tool's name."""
        return name == self.spec.name

    async def execute(self, arguments: Arguments, *, call_id: str | None = None) -> ToolResult:
        """Reply, wait on, and return the result for the model. A call that is repeated replies once."""
        del call_id  # the number of the message says whether it was replied to
        try:
            tool, question = await self._reply(arguments)
        except InvalidQuestion as refusal:
            return invalid_reply(refusal.problems)
        return await tool.go_on(question.id)

    async def start(self, arguments: Arguments, *, call_id: str | None = None) -> Interrupt | ToolResult:
        """Reply and do not wait: returns an interrupt to raise or return, or the result if there is one."""
        try:
            tool, question = await self._reply(arguments)
        except InvalidQuestion as refusal:
            return invalid_reply(refusal.problems)
        if question.outcome is not None or question.is_askers_turn:
            return await tool.go_on(question.id)
        event = event_of(question, tool=self.spec.name, conversation=tool.conversation, call_id=call_id)
        return Interrupt(self.spec.name, tool.conversation, call_id, (event,))

    async def resume(self, question_ids: Sequence[str], *, timeout: Span | None = None) -> ToolResult:
        """Return the result for the model of a call that was started, in this process or in another."""
        (question_id,) = question_ids
        for tool in self._tools:
            with suppress(QuestionNotFound):
                return await tool.go_on(question_id, timeout=timeout)
        raise QuestionNotFound(question_id, "these tools")

    async def _reply(self, arguments: Arguments) -> tuple[AskTool | ApprovedTool, Question]:
        given = reply_from(arguments)
        for tool in self._tools:
            with suppress(QuestionNotFound):
                question = await tool.get_own(given.question_id)
                return tool, await reply_once(tool.desk, question, given)
        raise InvalidQuestion([Problem("question_id", "you have asked no such question")])


def reply_to_person(tools: Sequence[AskTool | ApprovedTool]) -> ReplyTool:
    """A tool with which a model replies to people who ask back about the questions of these tools.

    People may ask back about what these tools ask from now on. Their calls end with the status `asked_back` then, and the
    model calls this tool.
    """
    return ReplyTool(tools)


def reply_from(arguments: Arguments) -> Reply:
    """A model's reply, or `InvalidQuestion` with every problem."""
    try:
        return Reply.model_validate(json_object(arguments))
    except pydantic.ValidationError as error:
        known = {"missing": "is required", "extra_forbidden": "there is no such parameter; leave it out"}
        raise InvalidQuestion(
            [
                Problem(".".join(map(str, each["loc"])), known.get(each["type"], each["msg"]))
                for each in error.errors(include_url=False, include_input=False, include_context=False)
            ]
        ) from None


async def reply_once(desk: Desk, question: Question, given: Reply) -> Question:
    """Reply unless that was done before, and return the question as it is then.

    A text that cannot be kept, and a message that nobody wrote, raise `InvalidQuestion`.
    """
    if given.message > question.thread:
        raise InvalidQuestion([Problem("message", "there is no message with this number")])
    if question.outcome is not None or replied_to(await desk.history(question.id)) >= given.message:
        return question
    try:
        return await desk.reply(question.id, given.text, to=given.message)
    except (AlreadySettled, NothingToReply):  # an answer, or another process, was faster
        return await desk.get(question.id)
    except InvalidMessage as refusal:
        raise InvalidQuestion(refusal.problems) from refusal


def invalid_reply(problems: Sequence[Problem]) -> ToolResult:
    """The result of a call that is no reply: nobody has read anything."""
    return invalid_result(REPLY_TO_PERSON, problems, "Nothing was replied.")


REPLY_PARAMETERS: dict[str, Json] = {
    "question_id": {"type": "string", "description": "The question_id of the result."},
    "message": {
        "type": "integer",
        "minimum": 1,
        "description": "The number of the last message in the result.",
    },
    "text": {"type": "string", "description": "Your reply, for the person who asked."},
}
"""The parameters of the tool, as JSON Schemas."""

REPLY = ToolSpec(
    REPLY_TO_PERSON,
    "Reply to a person who asked you something about your question, if a result has the status asked_back. "
    "Reply only what you know. The same question goes on, and you get the answer to it, or the next message.",
    {
        "type": "object",
        "properties": REPLY_PARAMETERS,
        "required": list(REPLY_PARAMETERS),
        "additionalProperties": False,
    },
)
