"""A workflow that waits for a signal from a person, with Temporal alone.

Run it with: python examples/coming_from/temporal_before.py
It needs: pip install temporalio, and temporal server start-dev
"""

import asyncio

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker


@workflow.defn
class Deploy:
    """Waits until somebody has chosen how a version goes out."""

    def __init__(self) -> None:
        """Nobody has chosen yet."""
        self.strategy: str | None = None

    @workflow.signal
    def choose(self, strategy: str) -> None:
        """Take any text from anybody; a later one replaces it until the workflow goes on."""
        self.strategy = strategy

    @workflow.run
    async def run(self, version: str) -> str:
        """Wait, go on."""
        await workflow.wait_condition(lambda: self.strategy is not None)
        return f"{version} goes out as {self.strategy}"


async def main() -> None:
    """Start the workflow, or find it, and work on it until it is done."""
    client = await Client.connect("localhost:7233")
    async with Worker(client, task_queue="deploys", workflows=[Deploy]):
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
