"""A payment service that pays nothing without the approval of a person. It need not trust the agent that calls it.

The agent sends the receipt of the approval as a header. The service checks it against the refund that it is about to pay,
and uses the approval up at the Handraise server. So a refund is paid once, and only if exactly this was approved.

Run it with: HANDRAISE_URL=https://handraise.example python examples/gate/payment_service.py [PORT]
It needs: pip install "handraise[gate]" fastapi uvicorn, and the public key: RECEIPT_PUBLIC_KEY=receipts.key.pub
"""

import os
import sys
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel

from handraise.gate import Gate, Receipt, ReceiptRefused, ServerUses

app = FastAPI(title="Payments")
gate = Gate(
    key=os.environ.get("RECEIPT_PUBLIC_KEY", "receipts.key.pub"),
    workspace=os.environ.get("HANDRAISE_WORKSPACE", "default"),
    uses=ServerUses(os.environ["HANDRAISE_URL"]),
)


class Refund(BaseModel):
    """What is to be paid."""

    order: str
    amount: int


async def approved(refund: Refund, handraise_receipt: Annotated[str, Header()] = "") -> Receipt:
    """The receipt for exactly this refund. Without one, the request is refused."""
    try:
        return await gate.check(handraise_receipt, tool="refund", arguments=refund.model_dump())
    except ReceiptRefused as refused:
        raise HTTPException(503 if refused.try_again else 403, refused.reason) from None


@app.post("/refunds")
async def pay(refund: Refund, receipt: Annotated[Receipt, Depends(approved)]) -> dict[str, str]:
    """Pay. Nothing gets here that was not approved."""
    by = ", ".join(f"{each.by} ({each.evidence or 'no evidence'})" for each in receipt.approvers)
    return {"paid": f"{refund.amount} for order {refund.order}", "approved by": by or receipt.source}


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if sys.argv[1:] else 8001)
