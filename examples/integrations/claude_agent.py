"""An agent that lets people decide, and need not stay for that: `agent.py task [session]`.

Run it with: python examples/integrations/claude_agent.py "Paint the bikeshed."
It needs: pip install "handraise[claude]"
"""

import asyncio
import sys

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, TextBlock

from handraise import Desk, open_desk
from handraise.integrations.claude_agent import asking, deferring, settled


async def work(desk: Desk, session: str | None) -> ResultMessage:
    """Run until the end, or until people have to decide."""
    options = ClaudeAgentOptions(
        resume=session,
        can_use_tool=asking(desk),
        hooks={"PreToolUse": [deferring(desk, "Write|AskUserQuestion", editable={"Write": ["content"]})]},
    )
    async with ClaudeSDKClient(options) as client:
        if session is None:
            await client.query(sys.argv[1])
        async for message in client.receive_response():
            if isinstance(message, AssistantMessage):
                print(*(each.text for each in message.content if isinstance(each, TextBlock)), flush=True)
            elif isinstance(message, ResultMessage):
                return message
    raise ConnectionError("Claude Code ended without a result")


async def main(session: str | None) -> None:
    """Work, wait for people, and work on, in this process or in the next one."""
    async with open_desk() as desk:
        result = await work(desk, session)
        while result.deferred_tool_use:
            print("resume", result.session_id, flush=True)
            await settled(desk, result.deferred_tool_use.id)
            result = await work(desk, result.session_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[2] if sys.argv[2:] else None))
