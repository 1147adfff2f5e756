"""A CrewAI crew or flow that plays a script, for tests to start: `app_crewai.py desk script`.

It prints what its tools and methods did, and as its last line what the agent was told, or what came of the flow. CrewAI has an
environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.flow.flow import Flow, listen, start
from crewai.flow.human_feedback import HumanFeedbackResult, human_feedback
from pydantic import BaseModel

import handraise
from handraise import HandraiseError, MultiChoice
from handraise.blocking import open_desk
from handraise.integrations import crewai
from handraise.integrations.crewai import AskHuman, approved, approved_arguments, at_desk
from handraise.model.thread_messages import ThreadMessage
from tests.integrations.shop import changed

_, URL, SCRIPT = sys.argv
ASKED = json.loads(SCRIPT)
OPTIONS = ASKED.get("options", {})


def drop(table: str) -> str:
    """Drop a table."""
    if table == "system":
        raise ValueError("not this one")
    print(f"dropped {table}", flush=True)
    return f"dropped {table}"


class Scripted(BaseLLM):
    """Makes its calls one after the other, asks again what was sent back, and ends; it keeps what it was told."""

    calls: list[Any]

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        text = "\n".join(str(each["content"]) for each in messages if each["role"] != "system")
        told = [part.partition("\n")[0].strip() for part in text.split("Observation:")[1:]]
        told = [each for each in told if each != "the result of the action"]  # from a reminder of the format
        calls = list(self.calls)
        for place, each in enumerate(told):
            if (again := changed(each)) is not None:
                calls.insert(place + 1, ["ask_human", again])
        if len(told) < len(calls):
            name, arguments = calls[len(told)]
            return f"Thought: I go on.\nAction: {name}\nAction Input: {json.dumps(arguments)}"
        return f"Thought: I now know the final answer\nFinal Answer: {json.dumps(told)}"

    def supports_function_calling(self) -> bool:
        return False


def customer(message: ThreadMessage) -> str:
    return f"{message.text} Customer 12."


def play_crew() -> None:
    more: dict[str, Any] = {"reply_with": customer} if ASKED.get("replies") else {}
    with open_desk(URL) as desk:
        tools = [AskHuman(desk, key="k", **more, **OPTIONS), approved(drop, desk, key="k", **more, **OPTIONS)]
        agents, tasks = [], []
        for place, calls in enumerate(ASKED["crew"]):
            model = Scripted(model="scripted", calls=calls)
            agents.append(Agent(role=f"Clerk {place}", goal="Go.", backstory="-", llm=model, tools=tools))
            tasks.append(
                Task(
                    description=f"Go {place}.",
                    expected_output="All.",
                    agent=agents[-1],
                    async_execution=place < len(ASKED["crew"]) - 1,
                )
            )
        done: Any = Crew(agents=agents, tasks=tasks).kickoff()
        print(json.dumps([each.raw for each in done.tasks_output]), flush=True)


class Case(BaseModel):
    channels: list[str] = []


class Asking(Flow[Case]):
    """Asks for channels, then for an approval."""

    @start()
    @human_feedback(message="Where?", provider=at_desk)
    def begin(self) -> Any:
        print("begun", flush=True)
        return crewai.described("Which channels?", form=MultiChoice.of("mail", "phone"))

    @listen(begin)
    @human_feedback(message="May I drop it?", provider=at_desk)
    def propose(self, result: HumanFeedbackResult) -> Any:
        self.state.channels = json.loads(result.feedback)
        return crewai.approval("drop", {"table": ASKED.get("table", "users")})

    @listen(propose)
    def end(self, result: HumanFeedbackResult) -> str:
        return f"{drop(**approved_arguments(result))} by {self.state.channels}"


class Forging(Flow[Case]):
    """Goes on with feedback that did not come from the desk."""

    @start()
    def begin(self) -> str:
        forged = HumanFeedbackResult(output="", feedback=json.dumps({"handraise": ASKED["forged"]}))
        return drop(**approved_arguments(forged))


class Routing(Flow[Case]):
    """Goes where a person sends it. No model could be asked which way that is."""

    @start()
    @human_feedback(
        message="Publish it?", emit=["publish", "rework"], default_outcome="publish", provider=at_desk
    )
    def draft(self) -> str:
        return "A draft."

    @listen("publish")
    def send_out(self) -> str:
        return "published"

    @listen("rework")
    def write_again(self, result: HumanFeedbackResult) -> str:
        return f"{result.outcome}: {result.output}"


FLOWS: dict[str, type[Flow[Case]]] = {"asking": Asking, "forging": Forging, "routing": Routing}


async def play_flow() -> None:
    async with handraise.open_desk(URL) as desk:
        flow = FLOWS[ASKED.get("flow", "asking")]
        quiet = {"suppress_flow_events": True}
        result = await crewai.run_flow(flow, desk=desk, key="k", runner=quiet, **OPTIONS)
        print(json.dumps(result), flush=True)


try:
    if "crew" in ASKED:
        play_crew()
    else:
        asyncio.run(play_flow())
except (HandraiseError, PermissionError, TypeError) as error:
    print(re.sub(r"question '[^']*'", "question", f"{type(error).__name__}: {error}"), flush=True)
