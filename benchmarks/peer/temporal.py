"""Temporal: a workflow waits for a signal. The development server, with its state in a file."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks.peer import ANSWER, QUESTION, measure


@workflow.defn
class Ask:
    """One question."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] | None = None

    @workflow.run
    async def run(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """Wait for the answer."""
        del question
        await workflow.wait_condition(lambda: self._answer is not None)
        return self._answer

    @workflow.signal
    def answer(self, answer: dict[str, Any]) -> None:
        """Take the answer."""
        self._answer = answer


async def main() -> None:
    """Start a server and a worker, measure, and end."""
    logging.disable(logging.WARNING)
    binary = Path(sys.executable).parent / "temporal"
    with tempfile.TemporaryDirectory() as folder:
        environment = await WorkflowEnvironment.start_local(
            dev_server_existing_path=str(binary),
            dev_server_log_level="error",
            dev_server_database_filename=str(Path(folder) / "temporal.db"),
        )
        client = environment.client

        async def pair() -> None:
            handle = await client.start_workflow(Ask.run, QUESTION, id=uuid.uuid4().hex, task_queue="bench")
            await handle.signal(Ask.answer, ANSWER)
            if await handle.result() != ANSWER:
                raise RuntimeError("the answer did not arrive")

        try:
            async with Worker(
                client, task_queue="bench", workflows=[Ask], workflow_runner=UnsandboxedWorkflowRunner()
            ):
                await measure(pair)
        finally:
            await environment.shutdown()


asyncio.run(main())
