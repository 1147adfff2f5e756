"""Tools that a model calls to ask people, and the calls that a client shows for them."""

from handraise.tools.approvals import ApprovalOptions, requires_approval
from handraise.tools.approved_tool import ApprovedTool
from handraise.tools.ask_tools import (
    AskTool,
    ask_clarifying_question,
    ask_human,
    clarify,
    find_tool,
    human_intervention_request,
    preset_tools,
)
from handraise.tools.client_calls import (
    ToolResultSubmission,
    client_message,
    pending_client_messages,
    submit_tool_result,
)
from handraise.tools.history import filter_client_messages
from handraise.tools.reply_tool import ReplyTool, reply_to_person
from handraise.tools.results import ResultStatus, ToolResult, to_tool_result
from handraise.tools.tool_arguments import Intent
from handraise.tools.tool_events import AskEvent, Emit, Interrupt
from handraise.tools.tool_spec import ToolSpec

__all__ = [
    "ApprovalOptions",
    "ApprovedTool",
    "AskEvent",
    "AskTool",
    "Emit",
    "Intent",
    "Interrupt",
    "ReplyTool",
    "ResultStatus",
    "ToolResult",
    "ToolResultSubmission",
    "ToolSpec",
    "ask_clarifying_question",
    "ask_human",
    "clarify",
    "client_message",
    "filter_client_messages",
    "find_tool",
    "human_intervention_request",
    "pending_client_messages",
    "preset_tools",
    "reply_to_person",
    "requires_approval",
    "submit_tool_result",
    "to_tool_result",
]
