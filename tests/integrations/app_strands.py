"""A Strands agent that makes the calls of a script, for tests to start: `app_strands.py desk script`.

It prints what its tools did, and as its last line what the model was told. Strands has an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterable
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent

import handraise
from handraise import Confirm
from handraise.integrations import strands
from tests.integrations.shop import changed, reply_to

_, URL, SCRIPT = sys.argv
ASKED = json.loads(SCRIPT)


@tool
def drop(table: str) -> str:
    """Drop a table."""
    if table == "system":
        raise ValueError("not this one")
    print(f"dropped {table}", flush=True)
    return f"dropped {table}"


@tool(context=True)
def clean(tool_context: ToolContext) -> str:
    """Clean up, if a person wants it."""
    print("about to clean", flush=True)
    wanted = strands.ask(tool_context, "sure", "Clean up?", form=Confirm())
    return f"wanted: {wanted}"


@tool(context=True)
def plain(tool_context: ToolContext) -> str:
    """Interrupt the agent as Strands itself does."""
    return str(tool_context.interrupt("why", reason="Why?"))


class Scripted(Model):
    """Makes the calls, replies to people who ask back, asks again what was sent back, and ends."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    async def stream(self, messages: Messages, *_: Any, **__: Any) -> AsyncIterable[StreamEvent]:
        contents = [each for message in messages for each in message["content"]]
        results = [each["toolResult"] for each in contents if "toolResult" in each]
        self.told = {each["toolUseId"]: each["content"][0]["text"] for each in results}
        calls = [] if self.told else ASKED["calls"]
        last = list(self.told.values())[-1] if self.told else ""
        if reply := reply_to(last):
            calls = [[f"reply-{len(self.told)}", "reply_to_person", reply]]
        if again := changed(last):
            calls = [["call-2", "ask_human", again]]
        yield {"messageStart": {"role": "assistant"}}
        for call_id, name, arguments in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call_id, "name": name}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}


def agent_of(model: Scripted, *gated: str) -> Agent:
    tools: list[Any] = [strands.ask_human, strands.reply_to_person, drop, clean, plain]
    return Agent(model=model, tools=tools, hooks=[strands.RequireApproval(*gated)], callback_handler=None)


async def main() -> None:
    model = Scripted()
    agent = agent_of(model, *ASKED.get("gated", ["drop"]))
    try:
        if ASKED.get("forged"):
            # Another program resumes the agent, with the response that `run` would give.
            paused = await agent.invoke_async("Go.")
            [waiting] = paused.interrupts or []
            response = {"interruptId": waiting.id, "response": {"handraise": waiting.id}}
            responses: Any = [{"interruptResponse": response}]
            await agent.invoke_async(responses)
        else:
            async with handraise.open_desk(URL) as desk:
                await strands.run(
                    agent, "Go.", desk=desk, key=ASKED.get("key", "k"), **ASKED.get("options", {})
                )
    except (handraise.HandraiseError, TypeError) as error:
        print(type(error).__name__, flush=True)
    print(json.dumps(model.told), flush=True)


asyncio.run(main())
