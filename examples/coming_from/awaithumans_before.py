"""A refund that a person decides about, with awaithumans.

Run it with: AWAITHUMANS_URL=URL AWAITHUMANS_ADMIN_API_TOKEN=TOKEN python examples/coming_from/awaithumans_before.py
It needs: pip install awaithumans
"""

import asyncio

from awaithumans import await_human
from pydantic import BaseModel


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
    decision = await await_human(
        task="Refund this order?",
        payload_schema=Refund,
        payload=Refund(order="A-17", amount=40),
        response_schema=Decision,
        timeout_seconds=900,
        idempotency_key="refund:A-17",
    )
    print("refunded" if decision.approved else f"not refunded: {decision.note}")


asyncio.run(main())
