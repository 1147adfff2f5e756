"""Two programs for tests: `serve` is an MCP server over stdio, `agent JOURNAL ERA` an agent that uses it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from handraise import Responder, open_desk
from handraise.integrations.mcp import ClientPerson, mcp_server, serve_stdio


async def serve() -> None:
    """What `handraise mcp --as deployer --person ana` does, and nothing of what else a command line loads."""
    Path(os.environ["PID_FILE"]).write_text(str(os.getpid()), encoding="utf-8")
    async with open_desk(asker="deployer") as desk:
        await serve_stdio(mcp_server(desk, person=ClientPerson(desk, Responder("ana"))))


def server() -> StdioServerParameters:
    """How a client starts it."""
    environment = {name: os.environ[name] for name in ("HANDRAISE_URL", "PID_FILE")}
    return StdioServerParameters(command=sys.executable, args=[__file__, "serve"], env=environment)


async def agent(journal: Path, era: str) -> None:
    """Build, ask, and deploy: what the journal has is not done again."""
    if "built" not in journal.read_text(encoding="utf-8"):
        note(journal, "built")
    question = {"question": "How?", "choices": ["Canary", "Rolling"], "key": "deploy 42", "wait_seconds": 40}
    async with Client(server(), mode=era) as client:
        result = await client.call_tool("ask_human", question)
    note(journal, f"deployed as {result.structured_content['value']}")


def note(journal: Path, line: str) -> None:
    with journal.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
        case ["agent", path, wanted]:
            asyncio.run(agent(Path(path), wanted))
