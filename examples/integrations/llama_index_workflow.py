"""A LlamaIndex workflow that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/llama_index_workflow.py refund-A-17
It needs: pip install "handraise[llama-index]"
"""

import asyncio
import sys
from typing import Any

from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

import handraise
from handraise.integrations import llama_index


class Reason(Event):
    """Somebody should say why."""


class Refund(Event):
    """Money should be sent."""


class Done(Event):
    """One of both is done."""

    said: str


class Refunds(Workflow):
    """Asks two people at once, and ends when both have answered."""

    @step
    async def begin(self, ctx: Context[Any], start: StartEvent) -> Reason | Refund | None:
        """What is done here is not done again: a step that is over stays over."""
        del start
        print("thinking", flush=True)
        ctx.send_event(Reason())
        ctx.send_event(Refund())
        return None

    @step
    async def reason(self, ctx: Context[Any], event: Reason) -> Done:
        """Runs again from its start when the answer is there, so ask first."""
        del event
        told = await llama_index.ask(ctx, "why", "Why do they want it back?")
        return Done(said=told.words)

    @step
    async def refund(self, ctx: Context[Any], event: Refund) -> Done:
        """What was approved is what is executed."""
        del event
        action = {"order": "A-17", "amount": 40}
        try:
            arguments = await llama_index.request_approval(
                ctx, "refund", "send_refund", action, editable=["amount"]
            )
        except handraise.NotApproved as refused:
            return Done(said=refused.reason)
        print(f"refunding {arguments['amount']} for {arguments['order']}", flush=True)
        return Done(said="sent")

    @step
    async def end(self, ctx: Context[Any], event: Done) -> StopEvent | None:
        """Both are done."""
        both = ctx.collect_events(event, [Done, Done])
        return None if both is None else StopEvent(result=sorted(each.said for each in both))


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    async with handraise.open_desk() as desk:
        print(await llama_index.run(Refunds(timeout=None), desk=desk, key=key), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
