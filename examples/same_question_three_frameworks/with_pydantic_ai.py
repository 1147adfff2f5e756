"""The agent of `script.py` in Pydantic AI.

Run it with: python examples/same_question_three_frameworks/with_pydantic_ai.py
It needs: pip install "handraise[pydantic-ai]"
"""

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, Tool, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from script import TASK, deploy, play, think

from handraise.integrations.pydantic_ai import ask_human, run


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that thinks as the script does."""
    del info
    parts = [part for message in messages for part in message.parts]
    said = think({part.tool_call_id: str(part.content) for part in parts if isinstance(part, ToolReturnPart)})
    if isinstance(said, str):
        return ModelResponse([TextPart(said)])
    return ModelResponse([ToolCallPart(*said, tool_call_id=said[0])])


agent = Agent(FunctionModel(model), tools=[ask_human, Tool(deploy, requires_approval=True)])
print(asyncio.run(play(agent, TASK, run)).output)
