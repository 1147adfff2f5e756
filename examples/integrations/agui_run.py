"""Run an AG-UI agent. Whatever it needs to know, people are asked; then it goes on.

Run it with: python examples/integrations/agui_run.py http://127.0.0.1:8000/agent refund-A-17
It needs: pip install "handraise[agui]", and agui_serve.py beside it
"""

import asyncio
import sys

import httpx2
from ag_ui.core import RunAgentInput, UserMessage

import handraise
from handraise.integrations.agui import AguiAgent


async def main(url: str, thread: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on where it was."""
    run = RunAgentInput(
        thread_id=thread, run_id="run-1", messages=[UserMessage(id="m-1", content="Refund A-17.")]
    )
    headers = {"Cookie": "session=a session of your application"}
    async with handraise.open_desk() as desk, httpx2.AsyncClient(timeout=60) as client:
        end = await AguiAgent(url, desk=desk, client=client, headers=headers).run(run)
    for message in end.messages:
        if message["role"] == "tool":
            print(message["toolCallId"], message["content"], flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
