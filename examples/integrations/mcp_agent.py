"""An agent that asks over MCP. Kill it while it waits, start it again, and it goes on with the answer.

Run it with: python examples/integrations/mcp_agent.py
It needs: pip install "handraise[cli,mcp]"
"""

import asyncio

from mcp import Client, StdioServerParameters

HANDRAISE = StdioServerParameters(
    command="handraise", args=["mcp"], env={"HANDRAISE_URL": "sqlite:///questions.db"}
)


async def main() -> None:
    """Ask, and wait however long it takes."""
    async with Client(HANDRAISE) as client:
        result = await client.call_tool(
            "ask_human",
            {"question": "How shall v42 go out?", "choices": ["Canary", "Rolling"], "key": "deploy 42"},
        )
        while result.structured_content["status"] == "still_pending":
            waiting = {"question_id": result.structured_content["question_id"]}
            result = await client.call_tool("collect_answer", waiting)
        print(result.structured_content)


asyncio.run(main())
