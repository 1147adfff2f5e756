"""Receipts of approvals: for the agent that asked, and for the place where the action is executed.

That place needs neither a key nor a session: a receipt is a credential itself, and public keys are public.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.errors import InvalidRequest, NoReceiptKey, ReceiptRefused
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.model.receipts import receipt_use_problem
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import Context, CurrentAgent, count_refusal
from handraise.wire.receipt_records import ReceiptKeySet, ReceiptToken, UsedReceipt, UseReceipt

router = APIRouter(prefix="/v1", tags=["receipts"])
open_router = APIRouter(prefix="/v1", tags=["receipts"])
"""What needs no key and no session."""


@router.get("/questions/{question_id}/receipt", response_model=ReceiptToken)
async def get_receipt(ctx: Context, agent: CurrentAgent, question_id: QuestionId) -> Response:
    """Get a receipt of your approval, for the place that executes the action. All receipts of it allow one use."""
    desk = ctx.desk.scoped(agent.workspace, asker=agent.agent)
    return reply(ReceiptToken(receipt=await desk.receipt(question_id)))


@open_router.get("/receipt-keys", response_model=ReceiptKeySet)
async def list_receipt_keys(ctx: Context) -> Response:
    """Get the public keys that receipts are verified with, as a JSON Web Key Set. Empty if none is set."""
    keys = {"keys": []} if ctx.receipt_key is None else ctx.receipt_key.verifier.key_set()
    return reply(ReceiptKeySet.model_validate(keys))


@open_router.post("/receipts/use", response_model=UsedReceipt)
async def use_receipt(request: Request, ctx: Context, body: UseReceipt) -> Response:
    """Use an approval up, where its action is about to be executed. The receipt is the credential.

    The statement that decides is that of `consume`. The same `use_id` gets the same answer again; any other gets 409.
    """
    if ctx.receipt_key is None:
        raise NoReceiptKey
    if why := text_problem(body.use_id) or receipt_use_problem(body.use_id):
        raise InvalidRequest([Problem("body.use_id", why)])
    try:
        receipt = await asyncio.to_thread(ctx.receipt_key.verifier.read, body.receipt)
    except ReceiptRefused:
        count_refusal(request, "receipt")
        raise
    request.app.state.rate_limits.count_request(receipt.workspace, f"receipt:{receipt.id}")
    desk = ctx.desk.scoped(receipt.workspace, asker=receipt.asker)
    await desk.use_receipt(receipt, use_id=body.use_id)
    return reply(UsedReceipt(question_id=receipt.question_id, use_id=body.use_id))
