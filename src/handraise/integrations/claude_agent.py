"""Claude Agent SDK: Claude's tool calls and questions go to people through a desk.

Needs `pip install "handraise[claude]"`. `asking` waits as long as the process lives; with `deferring` the process can end
and another one resumes the session when the answer is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from handraise import Desk
from handraise.errors import MissingExtra
from handraise.integrations.claude_code import Allow, Call, ToolCalls, answer_hook, settled
from handraise.questions import QuestionOptions
from handraise.tools.reply_tool import REPLY

try:
    from claude_agent_sdk import (
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        McpSdkServerConfig,
        PermissionResult,
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
        create_sdk_mcp_server,
        tool,
    )
except ModuleNotFoundError as error:
    if error.name != "claude_agent_sdk":
        raise
    raise MissingExtra("claude-agent-sdk", "claude") from error

__all__ = ["Asking", "asking", "deferring", "settled"]

Editable = Mapping[str, Sequence[str]]


REPLY_TOOL = f"mcp__handraise__{REPLY.name}"
"""The name under which Claude finds the tool `reply_to_person`."""


def asking(desk: Desk, *, editable: Editable | None = None, **about: Unpack[QuestionOptions]) -> Asking:
    """For `ClaudeAgentOptions(can_use_tool=…)`: asks about what no rule allows, and answers `AskUserQuestion`.

    `editable` names the arguments of each tool that a person may change. `about` says who is asked and for how long. With
    `replies="model"` people may ask back: also give `mcp_servers={"handraise": asking.server}`, so that Claude can reply.
    """
    return Asking(ToolCalls(desk, editable=editable, **about), replies=about.get("replies") == "model")


class Asking:
    """Asks people about tool calls. `server` has the tool with which Claude replies to those who ask back."""

    def __init__(self, calls: ToolCalls, *, replies: bool) -> None:
        self._calls = calls
        self._replies = replies

        async def reply_to_person(arguments: dict[str, Any]) -> dict[str, Any]:
            result = await calls.reply(arguments)
            failed = {"is_error": True} if result.status == "invalid" else {}
            return {"content": [{"type": "text", "text": result.content}], **failed}

        spoken = tool(REPLY.name, REPLY.description, REPLY.parameters)(reply_to_person)
        self.server: McpSdkServerConfig = create_sdk_mcp_server("handraise", tools=[spoken])

    async def __call__(
        self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        """People's decision about a call, as soon as there is one."""
        if self._replies and tool == REPLY_TOOL:
            return PermissionResultAllow(updated_input=arguments)
        decision = await self._calls.wait(Call(tool=tool, arguments=arguments, id=context.tool_use_id))
        if isinstance(decision, Allow):
            return PermissionResultAllow(updated_input=decision.arguments)
        return PermissionResultDeny(message=decision.reason)


def deferring(
    desk: Desk,
    matcher: str | None = None,
    *,
    editable: Editable | None = None,
    **about: Unpack[QuestionOptions],
) -> HookMatcher:
    """For `ClaudeAgentOptions(hooks={"PreToolUse": […]})`: asks and ends the session with the call deferred.

    A resumed session comes here again with the same call, and goes on once people have decided. `matcher` are
    the tools that people are asked about. If the hook itself fails, the call does not run. People cannot ask back: the
    session has ended, and nobody would reply.
    """
    if about.get("replies") is not None:
        raise TypeError("Nobody replies for a session that has ended: leave out replies, or use asking().")
    calls = ToolCalls(desk, editable=editable, **about)

    async def hook(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        del tool_use_id, context
        said: Any = await answer_hook(calls, {**given}, "defer")
        output: HookJSONOutput = said
        return output

    return HookMatcher(matcher=matcher, hooks=[hook], on_failure="block")
