"""The agent of `script.py` in LangChain, on LangGraph.

Run it with: python examples/same_question_three_frameworks/with_langgraph.py
It needs: pip install "handraise[langchain]" langgraph-checkpoint-sqlite
"""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from script import TASK, deploy, play, think

from handraise import Desk
from handraise.integrations.langchain import ApprovalMiddleware
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


async def run_agent(model: Model, task: Any, *, desk: Desk, **options: Any) -> Any:
    """Run an agent with this model; its middleware needs the desk, so it is made here."""
    review = ApprovalMiddleware(desk, {"deploy": True}, edit_notice=None)
    with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        agent = create_agent(model, [ask_human, deploy], middleware=[review], checkpointer=saver)
        return await run(agent, task, desk=desk, **options)


result = asyncio.run(play(Model(), {"messages": [("user", TASK)]}, run_agent))
print(result["messages"][-1].content)
