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

try:
    from claude_agent_sdk import (
        CanUseTool,
        HookContext,
        HookInput,
        HookJSONOutput,
        HookMatcher,
        PermissionResult,
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
    )
except ModuleNotFoundError as error:
    if error.name != "claude_agent_sdk":
        raise
    raise MissingExtra("claude-agent-sdk", "claude") from error

__all__ = ["asking", "deferring", "settled"]

Editable = Mapping[str, Sequence[str]]


def asking(desk: Desk, *, editable: Editable | None = None, **about: Unpack[QuestionOptions]) -> CanUseTool:
    """For `ClaudeAgentOptions(can_use_tool=…)`: asks about what no rule allows, and answers `AskUserQuestion`.

    `editable` names the arguments of each tool that a person may change. `about` says who is asked and for how long.
    """
    calls = ToolCalls(desk, editable=editable, **about)

    async def can_use_tool(
        tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        decision = await calls.wait(Call(tool=tool, arguments=arguments, id=context.tool_use_id))
        if isinstance(decision, Allow):
            return PermissionResultAllow(updated_input=decision.arguments)
        return PermissionResultDeny(message=decision.reason)

    return can_use_tool


def deferring(
    desk: Desk,
    matcher: str | None = None,
    *,
    editable: Editable | None = None,
    **about: Unpack[QuestionOptions],
) -> HookMatcher:
    """For `ClaudeAgentOptions(hooks={"PreToolUse": […]})`: asks and ends the session with the call deferred.

    A resumed session comes here again with the same call, and goes on once people have decided. `matcher` are
    the tools that people are asked about. If the hook itself fails, the call does not run.
    """
    calls = ToolCalls(desk, editable=editable, **about)

    async def hook(given: HookInput, tool_use_id: str | None, context: HookContext) -> HookJSONOutput:
        del tool_use_id, context
        said: Any = await answer_hook(calls, {**given}, "defer")
        output: HookJSONOutput = said
        return output

    return HookMatcher(matcher=matcher, hooks=[hook], on_failure="block")
