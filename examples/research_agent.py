"""A research agent that goes on working while three questions are out.

It asks what it needs to know at the start, at once: which market, which currency, and whether a paid source may be used.
Then it reads source after source, and uses each answer from the moment it is there. The answers come in another order
than the questions, from two people, and each reaches the place that asked. Nobody answers the third question, so the default that it named
holds. Only at the end does it wait, for what is still open.

Run it with: python examples/research_agent.py [sqlite:///file.db | postgresql://…]
"""

import asyncio
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import handraise
from handraise import Answered, Confirm, Desk, Timeline

SOURCES = ["annual report", "interviews", "statistics", "press"]


class Brief:
    """What the agent knows of its task, filled in as answers come."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.waiting: dict[str, asyncio.Task[None]] = {}

    def ask_for(self, name: str, desk: Desk, prompt: str, **options: Any) -> None:
        """Ask in the background; the answer is `known` once it is there."""

        async def fill() -> None:
            question = await desk.post(prompt, conversation="research", **options)
            match await desk.wait(question.id):
                case Answered(value=value, source=source):
                    self.known[name] = value
                    print(f"  {name} is {value!r}, says a {source}")
                case outcome:
                    print(f"  {name} is left out: {outcome}")

        self.waiting[name] = asyncio.create_task(fill())


async def agent(desk: Desk) -> str:
    """Ask three things, read all sources meanwhile, and write the report when everything is known."""
    brief = Brief()
    brief.ask_for("market", desk, "Which market?", choices=["Europe", "Asia"])
    brief.ask_for("currency", desk, "Which currency?")
    soon = Timeline(expire=timedelta(seconds=2), default=False)
    brief.ask_for("paid", desk, "May I use a paid source?", form=Confirm(), timeline=soon)
    for source in SOURCES:
        await asyncio.sleep(0.3)  # reading takes its time
        print(f"read {source} for {brief.known.get('market', 'any market')}")
    await asyncio.gather(*brief.waiting.values())
    return f"{brief.known['market']} in {brief.known['currency']}, paid sources: {brief.known['paid']}"


async def people(desk: Desk) -> None:
    """Bob answers the second question first, Ana the first one later. Nobody answers the third."""
    await asyncio.sleep(0.4)
    await answer(desk, "Which currency?", "EUR", by="bob")
    await asyncio.sleep(0.3)
    await answer(desk, "Which market?", "Asia", by="ana")


async def answer(desk: Desk, prompt: str, value: str, by: str) -> None:
    """What an inbox does: find the question among those that are pending, and answer it."""
    while True:
        for question in (await desk.list_pending()).items:
            if question.prompt == prompt:
                await desk.answer(question.id, value, by=by)
                return
        await asyncio.sleep(0.01)


async def main(url: str) -> None:
    """Play the agent and the people, each at a desk of their own."""
    async with (
        handraise.open_desk(url, asker="researcher", poll_interval=0.2) as desk,
        handraise.open_desk(url) as theirs,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(people(theirs))
        print("report:", await agent(desk))


if __name__ == "__main__":
    here = Path(tempfile.mkdtemp()) / "questions.db"
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{here}"))
