"""A Temporal workflow that asks. Kill the worker while it waits, start it again, and it goes on with the answer.

Run it with: python examples/integrations/temporal_workflow.py
It needs: pip install "handraise[temporal]", and temporal server start-dev
"""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from handraise import open_desk
from handraise.integrations.temporal import HandraisePlugin, ask


@activity.defn
async def build(version: str) -> None:
    """Something that should happen once."""
    print("built", version, flush=True)


@workflow.defn
class Deploy:
    """Builds a version and asks how it shall go out."""

    @workflow.run
    async def run(self, version: str) -> str:
        """Build, ask, go on."""
        await workflow.execute_activity(build, version, start_to_close_timeout=timedelta(minutes=1))
        strategy = await ask(f"How shall {version} go out?", choices=["Canary", "Rolling"])
        return f"{version} goes out as {strategy}"


async def main() -> None:
    """Start the workflow, or find it, and work on it until it is done."""
    client = await Client.connect("localhost:7233")
    async with (
        open_desk() as desk,
        Worker(
            client,
            task_queue="deploys",
            workflows=[Deploy],
            activities=[build],
            plugins=[HandraisePlugin(desk)],
        ),
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
