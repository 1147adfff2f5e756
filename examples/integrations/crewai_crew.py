"""An agent of a CrewAI crew that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/crewai_crew.py refund-A-17
It needs: pip install "handraise[crewai]"
"""

import json
import sys
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task

from handraise.blocking import open_desk
from handraise.integrations.crewai import AskHuman, approved


def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(BaseLLM):
    """Stands in for a model: it asks, then refunds, then says what it was told."""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        """One turn."""
        text = "\n".join(str(each["content"]) for each in messages if each["role"] != "system")
        told = [part.partition("\n")[0].strip() for part in text.split("Observation:")[1:]]
        turns: list[tuple[str, dict[str, Any]]] = [
            ("ask_human", {"question": "Why do they want it back?"}),
            ("send_refund", {"order": "A-17", "amount": 40}),
        ]
        if not told:
            print("thinking", flush=True)
        if len(told) == len(turns):
            return f"Thought: I now know the final answer\nFinal Answer: I was told: {told}"
        name, arguments = turns[len(told)]
        return f"Thought: I go on.\nAction: {name}\nAction Input: {json.dumps(arguments)}"

    def supports_function_calling(self) -> bool:
        """It writes its calls as text."""
        return False


def main(key: str) -> None:
    """Run it to its end. Started again it begins again, and finds the answers that it has had."""
    with open_desk() as desk:
        clerk = Agent(
            role="Clerk",
            goal="Refund what may be refunded.",
            backstory="You ask before you pay.",
            llm=Scripted(model="scripted"),  # your model goes here
            tools=[AskHuman(desk, key=key), approved(send_refund, desk, key=key, editable=["amount"])],
        )
        refund = Task(description="Refund A-17.", expected_output="What you were told.", agent=clerk)
        print(Crew(agents=[clerk], tasks=[refund]).kickoff(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
