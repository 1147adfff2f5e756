"""The agent of `script.py` in LangChain, on LangGraph.

Run it with: python examples/same_question_three_frameworks/with_langgraph.py
It needs: pip install "handraise[langgraph]" langchain langgraph-checkpoint-sqlite
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from script import TASK, deploy, play, think

from handraise.integrations.langgraph import ask_human, run


class Model(BaseChatModel):
    """A model that thinks as the script does."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, *tools: Any, **options: Any) -> "Model":
        """Take any tools."""
        del tools, options
        return self

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> ChatResult:
        del more, options
        said = think({each.tool_call_id: each.text for each in messages if isinstance(each, ToolMessage)})
        if isinstance(said, str):
            message = AIMessage(said)
        else:
            message = AIMessage("", tool_calls=[{"id": said[0], "name": said[0], "args": said[1]}])
        return ChatResult(generations=[ChatGeneration(message=message)])


review: Any = HumanInTheLoopMiddleware({"deploy": True}, interrupt_mode="per_call", edit_notice=None)
with SqliteSaver.from_conn_string("checkpoints.db") as saver:
    agent = create_agent(Model(), [ask_human, deploy], middleware=[review], checkpointer=saver)
    result = asyncio.run(play(agent, {"messages": [("user", TASK)]}, run))
    print(result["messages"][-1].content)
