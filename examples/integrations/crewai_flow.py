"""A CrewAI flow that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/crewai_flow.py refund-A-17
It needs: pip install "handraise[crewai]"
"""

import asyncio
import sys
from typing import Any

from crewai.flow.flow import Flow, listen, start
from crewai.flow.human_feedback import HumanFeedbackResult, human_feedback
from pydantic import BaseModel

import handraise
from handraise.integrations.crewai import approval, approved_arguments, at_desk, run_flow


class Case(BaseModel):
    """What the flow remembers; it is kept while the flow waits."""

    why: str = ""


class Refund(Flow[Case]):
    """Asks why, then refunds what a person has approved."""

    @start()
    @human_feedback(message="Why do they want it back?", provider=at_desk)
    def look_up(self) -> str:
        """What it returns is shown to the person. It is not called again after a restart."""
        print("looking up A-17", flush=True)
        return "Order A-17: a kettle for 40 euros."

    @listen(look_up)
    @human_feedback(message="May I send the money back?", provider=at_desk)
    def propose(self, result: HumanFeedbackResult) -> dict[str, Any]:
        """The answer is `result.feedback`. What this returns waits for its approval."""
        self.state.why = result.feedback
        return approval("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])

    @listen(propose)
    def send_refund(self, result: HumanFeedbackResult) -> str:
        """Called with what was approved; otherwise `NotApproved` is raised here."""
        arguments = approved_arguments(result)
        print(f"refunding {arguments['amount']} for {arguments['order']}", flush=True)
        return f"refunded, because: {self.state.why}"


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    async with handraise.open_desk() as desk:
        print(await run_flow(Refund, desk=desk, key=key, runner={"suppress_flow_events": True}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
