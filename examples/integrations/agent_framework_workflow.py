"""A workflow of the Microsoft Agent Framework that asks two people at once.

Run it with: python examples/integrations/agent_framework_workflow.py deploy-42
It needs: pip install "handraise[agent-framework]"
"""

import asyncio
import os
import sys
from typing import Any, Never

from agent_framework import (
    Executor,
    FileCheckpointStorage,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
)

import handraise
from handraise.integrations import agent_framework


class Release(Executor):
    """Asks for a region and a strategy, and says what it will do when it knows both."""

    def __init__(self) -> None:
        super().__init__(id="release")

    @handler
    async def begin(self, version: str, ctx: WorkflowContext[Never, str]) -> None:
        """Called once: what is here is not done again after a restart."""
        print(f"preparing {version}", flush=True)
        region = agent_framework.described("Which region?", choices=["eu", "us"])
        await ctx.request_info(region, str, request_id=f"{version}-region")
        await ctx.request_info(f"Who watches {version}?", str, request_id=f"{version}-watch")

    @response_handler
    async def region(self, asked: dict[str, Any], answer: str, ctx: WorkflowContext[Never, str]) -> None:
        """Called with the answer to what was described."""
        del asked
        await ctx.yield_output(f"release to {answer}")

    @response_handler
    async def watch(self, asked: str, answer: str, ctx: WorkflowContext[Never, str]) -> None:
        """Called with the answer to a plain text."""
        await ctx.yield_output(f"{asked} {answer}")


async def main(key: str) -> None:
    """Run it to its end. Killed in between and started again, it goes on from its checkpoint."""
    storage = FileCheckpointStorage(os.environ.get("CHECKPOINTS", "checkpoints"))
    start = Release()
    workflow = WorkflowBuilder(start_executor=start, name="release", output_from=[start]).build()
    async with handraise.open_desk() as desk:
        result: Any = await agent_framework.run_workflow(workflow, "v2", desk=desk, key=key, storage=storage)
    print(sorted(result.get_outputs()), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
