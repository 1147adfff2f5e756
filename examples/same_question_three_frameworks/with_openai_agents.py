"""The agent of `script.py` in the OpenAI Agents SDK.

Run it with: python examples/same_question_three_frameworks/with_openai_agents.py
It needs: pip install "handraise[openai-agents]"
"""

import asyncio
from typing import Any

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call
from script import TASK, deploy, play, think

from handraise.integrations.openai_agents import ask_human, editable, run


def respond(call: ModelCall) -> list[Any]:
    """A model that thinks as the script does."""
    said = think({each["call_id"]: each["output"] for each in call.input if "output" in each})
    if isinstance(said, str):
        return [assistant_message(said)]
    return [function_call(*said, call_id=said[0])]


set_tracing_disabled(True)
model = ScriptedModel([ModelStep.respond(respond)] * 3)
tool = editable(function_tool(deploy, needs_approval=True), "replicas")
agent = Agent(name="deployer", model=model, tools=[ask_human, tool])
print(asyncio.run(play(agent, TASK, run)).final_output)
