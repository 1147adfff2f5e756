"""An agent behind an AG-UI route. Its front end answers what it asks; so may anybody at the inbox.

Run it with: python examples/integrations/agui_serve.py
It needs: pip install "handraise[agui]" uvicorn
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    MessagesSnapshotEvent,
    RunAgentInput,
    ToolCall,
    ToolCallResultEvent,
)
from starlette.applications import Starlette
from starlette.requests import Request

import handraise
from handraise import tools
from handraise.integrations.agui import agui_route

SESSIONS = {"a session of your application": "ana", "another session": "ben"}


def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


def person(request: Request) -> str | None:
    """Who has sent this, as your application knows it. None is nobody."""
    return SESSIONS.get(request.cookies.get("session", ""))


def plan() -> list[ToolCall]:
    """What a model would say here."""
    print("thinking", flush=True)
    why = FunctionCall(name="ask_clarifying_question", arguments='{"question": "Why do they want it back?"}')
    refund = FunctionCall(name="send_refund", arguments='{"order": "A-17", "amount": 40}')
    return [ToolCall(id="call-1", function=why), ToolCall(id="call-2", function=refund)]


def unanswered(run: RunAgentInput) -> list[ToolCall]:
    """The calls that the model has made and that have no result yet: the messages are the agent's memory."""
    done = {message.tool_call_id for message in run.messages if message.role == "tool"}
    said = [message for message in run.messages if message.role == "assistant"]
    return [call for message in said for call in message.tool_calls or [] if call.id not in done]


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Open the desk, and serve the agent there."""
    async with handraise.open_desk() as desk:

        async def agent(run: RunAgentInput, _: handraise.Responder) -> AsyncGenerator[BaseEvent, None]:
            asking = tools.ask_clarifying_question(desk, conversation=run.thread_id)
            refund = tools.ApprovedTool(
                send_refund, desk=desk, conversation=run.thread_id, editable=["amount"]
            )
            calls = unanswered(run)
            if not calls:
                calls = plan()
                said = AssistantMessage(id=f"{run.run_id}-1", tool_calls=calls)
                yield MessagesSnapshotEvent(messages=[*run.messages, said])
            for call in calls:
                tool = refund if refund.answers_to(call.function.name) else asking
                started = await tool.start(call.function.arguments, call_id=call.id)
                if isinstance(started, tools.Interrupt):
                    started = await tool.resume(started.question_ids, timeout=0)
                if started.status != "still_pending":
                    yield ToolCallResultEvent(
                        message_id=f"{call.id}-result", tool_call_id=call.id, content=started.content
                    )

        app.routes.append(agui_route("/agent", desk, agent, person=person))
        yield


if __name__ == "__main__":
    uvicorn.run(Starlette(lifespan=lifespan), port=int(os.environ.get("PORT", "8000")), log_level="warning")
