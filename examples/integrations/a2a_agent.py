"""An A2A agent that asks people through a desk. The task goes on when anyone answers, wherever they are.

Run it with: python examples/integrations/a2a_agent.py
It needs: pip install "handraise[a2a]"
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import uvicorn
from a2a.auth.user import UnauthenticatedUser, User
from a2a.helpers import new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    DefaultServerCallContextBuilder,
    create_agent_card_routes,
    create_jsonrpc_routes,
)
from a2a.server.routes.common import StarletteUser
from a2a.server.tasks import DatabaseTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.requests import Request

import handraise
from handraise import Approval, tools
from handraise.integrations.a2a import DeskTask, TaskWaker
from handraise.integrations.waker import keep_waking

PORT = int(os.environ.get("PORT", "8001"))
TOKENS = {"a token of your application": "ana"}


class Refunds(AgentExecutor):
    """Asks why, and for an approval; then sends the money."""

    def __init__(self, desk: handraise.Desk) -> None:
        self.desk = desk

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Called for every message to the task, and once more when somebody has answered elsewhere."""
        task = DeskTask(self.desk, context, event_queue)
        await task.begin()
        if task.is_new:
            print("thinking", flush=True)
        why = await task.ask("why", "Why do they want it back?")
        approval = Approval.of("send_refund", {"order": "A-17", "amount": 40}, editable=["amount"])
        refund = await task.ask("refund", "May I refund A-17?", form=approval)
        if await task.paused():
            return
        said = [tools.to_tool_result(await self.desk.get(each.id)).content for each in (why, refund)]
        with suppress(handraise.NotApproved):
            action = await self.desk.consume_approval(refund.id)
            print(f"refunding {action.arguments['amount']} for {action.arguments['order']}", flush=True)
            said.append("sent")
        await task.updater.complete(task.updater.new_agent_message([new_text_part(each) for each in said]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing is under way that could be stopped."""
        await DeskTask(self.desk, context, event_queue).updater.cancel()


class SignedIn(DefaultServerCallContextBuilder):
    """Finds out who calls. Nothing in a message can say that."""

    def build_user(self, request: Request) -> User:
        """The user whose token it is."""
        name = TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        return StarletteUser(SimpleUser(name)) if name else UnauthenticatedUser()


CARD = AgentCard(
    name="Refunds",
    description="Sends money back.",
    version="1.0",
    capabilities=AgentCapabilities(streaming=False),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="refund", name="Refund", description="Refunds an order.", tags=["money"])],
    supported_interfaces=[
        AgentInterface(protocol_binding="JSONRPC", protocol_version="1.0", url=f"http://127.0.0.1:{PORT}/rpc")
    ],
)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Open the desk, serve the agent, and wake the tasks whose questions are settled."""
    folder = Path(os.environ.get("DATA", "."))
    store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{folder / 'tasks.db'}"))
    async with handraise.open_desk() as desk:
        handler = DefaultRequestHandler(agent_executor=Refunds(desk), task_store=store, agent_card=CARD)
        app.routes.extend(create_agent_card_routes(CARD))
        app.routes.extend(create_jsonrpc_routes(handler, "/rpc", context_builder=SignedIn()))
        waking = asyncio.create_task(
            keep_waking(desk, TaskWaker(desk, handler), cursor=folder / "woken.json")
        )
        yield
        waking.cancel()


if __name__ == "__main__":
    uvicorn.run(Starlette(lifespan=lifespan), port=PORT, log_level="warning")
