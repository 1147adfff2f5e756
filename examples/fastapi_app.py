"""A shop in FastAPI with the inbox in it: its own routes first, and below them all pages and the API of Handraise.

The shop asks for a refund and returns at once. A person signs in to the same application and approves. The next request
pays, once, however many come. There is one process, one port and one store.

Run it with: python examples/fastapi_app.py [PORT]
Let somebody in with: handraise people add ana --admin && handraise people link ana (and the same HANDRAISE_URL)
It needs: pip install "handraise[server]"
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, HTTPException

import handraise
from handraise import Approval, Desk
from handraise.server import ServerSettings, create_app, open_server

SETTINGS = ServerSettings(port=int(sys.argv[1]) if sys.argv[1:] else 8000)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the store, do the chores beside, and mount everything below what the shop has of its own."""
    async with open_server(SETTINGS) as ctx:
        app.state.desk = ctx.desk.scoped(SETTINGS.workspace, asker="shop")
        app.mount("/", create_app(ctx))
        yield


app = FastAPI(title="Shop", lifespan=lifespan)


@app.post("/orders/{order}/refund", status_code=202)
async def ask_for_refund(order: str, amount: int) -> dict[str, str]:
    """Ask, and do not wait: the question is kept, and the same order gives the same question."""
    desk: Desk = app.state.desk
    try:
        question = await desk.post(
            f"Refund {amount} for order {order}?",
            form=Approval.of("refund", {"order": order, "amount": amount}),
            key=f"refund-{order}",
        )
    except handraise.KeyConflict:
        raise HTTPException(409, "A refund of another amount was asked for before.") from None
    return {"status": question.status, "page": f"{SETTINGS.base_url}/questions/{question.id}"}


@app.get("/orders/{order}/refund")
async def refund(order: str) -> dict[str, str]:
    """Pay if it was approved, and say how things are."""
    desk: Desk = app.state.desk
    question = await desk.find_by_key(f"refund-{order}")
    if question is None or question.status == "pending":
        return {"status": "nobody has asked" if question is None else "pending"}
    if not question.decision:
        return {"status": str(question.outcome)}
    try:
        action = await desk.consume_approval(question.id)
    except handraise.errors.AlreadyConsumed as used:
        return {
            "status": f"{used.report.text} before"
            if used.report
            else "started before: look whether it was paid"
        }
    except handraise.NotApproved as refused:  # its approval has lapsed, or was taken back
        return {"status": str(refused)}
    paid = f"paid {action.arguments['amount']}"  # pay here, with what was approved
    await desk.report(question.id, ok=True, text=paid)
    return {"status": paid}


if __name__ == "__main__":
    uvicorn.run(app, host=SETTINGS.host, port=SETTINGS.port, log_level="warning")
