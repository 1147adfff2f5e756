"""Send a remote A2A agent on an errand. Whatever it needs to know, people are asked; then it goes on.

Run it with: python examples/integrations/a2a_run.py http://127.0.0.1:8001 "Refund order A-17."
It needs: pip install "handraise[a2a]", and a2a_agent.py beside it
"""

import asyncio
import sys

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_message_text, new_text_message
from a2a.types import Role, Task

import handraise
from handraise.integrations.a2a import RemoteAgent


async def main(url: str, errand: str) -> None:
    """See it through. Killed in between and started again, it goes on where it was."""
    headers = {"Authorization": "Bearer a token of your application"}
    async with handraise.open_desk() as desk, httpx.AsyncClient(headers=headers, timeout=60) as http:
        client = await create_client(url, ClientConfig(streaming=False, httpx_client=http))
        message = new_text_message("Refund A-17.", role=Role.ROLE_USER)
        task = await RemoteAgent(client, desk).run(message, key=errand)
    print(get_message_text(task.status.message if isinstance(task, Task) else task), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
