"""The same workflow with Handraise. Workflows that wait for a signal since before go on waiting for it.

Run it with: python examples/coming_from/temporal_after.py
It needs: pip install "handraise[temporal]", and temporal server start-dev
"""

import asyncio

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from handraise import open_desk
from handraise.integrations.temporal import HandraisePlugin, ask


@workflow.defn
class Deploy:
    """Asks how a version goes out."""

    def __init__(self) -> None:
        """Remove this and the signal when the last old workflow has ended."""
        self.strategy: str | None = None

    @workflow.signal
    def choose(self, strategy: str) -> None:
        """Take the choice for a workflow that began before."""
        self.strategy = strategy

    @workflow.run
    async def run(self, version: str) -> str:
        """Ask, go on."""
        if workflow.patched("asks-through-handraise"):
            strategy = await ask(f"How shall {version} go out?", choices=["Canary", "Rolling"])
            return f"{version} goes out as {strategy}"
        await workflow.wait_condition(lambda: self.strategy is not None)
        return f"{version} goes out as {self.strategy}"


async def main() -> None:
    """Start the workflow, or find it, and work on it until it is done."""
    client = await Client.connect("localhost:7233")
    async with (
        open_desk() as desk,
        Worker(client, task_queue="deploys", workflows=[Deploy], plugins=[HandraisePlugin(desk)]),
    ):
        print(
            await client.execute_workflow(
                Deploy.run,
                "v42",
                id="deploy-42",
                task_queue="deploys",
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        )


if __name__ == "__main__":
    asyncio.run(main())
