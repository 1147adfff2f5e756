"""The same program with Handraise.

Run it with: python examples/coming_from/awaithumans_after.py
"""

import asyncio

from pydantic import BaseModel

import handraise


class Refund(BaseModel):
    """What the person sees."""

    order: str
    amount: float


class Decision(BaseModel):
    """What the person fills in."""

    approved: bool
    note: str | None = None


async def main() -> None:
    """Ask, wait, carry on."""
    async with handraise.open_desk(asker="refunds") as desk:
        decision = await desk.ask(
            "Refund this order?",
            context=Refund(order="A-17", amount=40).model_dump(),
            into=Decision,
            expires_in="15m",
            key="refund:A-17",
        )
        print("refunded" if decision.approved else f"not refunded: {decision.note}")


asyncio.run(main())
