"""A model that says what it is told to, instead of one that costs money."""

from pydantic_ai import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for the reason and refund in one turn, then tell what came of it."""
    del info
    parts = [part for message in messages for part in message.parts]
    results = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    if results:
        return ModelResponse([TextPart("\n".join(results))])
    why = {"question": "Why do they want it back?"}
    refund = {"order": "A-17", "amount": 40}
    return ModelResponse(
        [
            ToolCallPart("ask_human", why, tool_call_id="call_1"),
            ToolCallPart("send_refund", refund, tool_call_id="call_2"),
        ]
    )


model = FunctionModel(think)
