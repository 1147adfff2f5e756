"""An ADK agent that asks a person, and refunds what a person has approved.

Run it with: python examples/integrations/google_adk.py refund-A-17
It needs: pip install "handraise[google-adk]"
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.genai.types import Content, FunctionCall, Part

import handraise
from handraise.integrations import google_adk


def send_refund(order: str, amount: float) -> str:
    """Send money back."""
    print(f"refunding {amount} for {order}", flush=True)
    return "sent"


class Scripted(BaseLlm):
    """Stands in for a model: it asks two things at once, then says what it was told."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 -- ADK's own
    ) -> AsyncGenerator[LlmResponse, None]:
        """One turn."""
        del stream
        parts = [part for content in llm_request.contents for part in content.parts or []]
        told = {
            part.function_response.name: part.function_response.response
            for part in parts
            if part.function_response
        }
        if told:
            yield LlmResponse(content=Content(role="model", parts=[Part(text=f"I was told: {told}")]))
            return
        print("thinking", flush=True)
        calls = [
            FunctionCall(id="call-1", name="ask_human", args={"question": "Why do they want it back?"}),
            FunctionCall(id="call-2", name="send_refund", args={"order": "A-17", "amount": 40}),
        ]
        yield LlmResponse(content=Content(role="model", parts=[Part(function_call=call) for call in calls]))


async def main(session: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    tools = [google_adk.ask_human, google_adk.approved(send_refund, editable=["amount"])]
    agent = LlmAgent(name="refunds", model=Scripted(model="scripted"), tools=tools)
    sessions = DatabaseSessionService(os.environ.get("SESSIONS", "sqlite+aiosqlite:///sessions.db"))
    runner = Runner(app_name="refunds", agent=agent, session_service=sessions, auto_create_session=True)
    async with handraise.open_desk() as desk:
        events = await google_adk.run(
            runner, "Refund A-17.", user_id="ana", session_id=session, desk=desk, key=session
        )
    answer = events[-1].content
    print(answer.parts[0].text if answer and answer.parts else "nothing", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
