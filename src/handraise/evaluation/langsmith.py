"""LangSmith: what people decided becomes feedback on the traces of agents. `pip install "handraise[langsmith]"`."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from datetime import datetime
from typing import Any, Protocol

from handraise import Desk
from handraise.evaluation.scores import Score, scores_since


class LangSmithClient(Protocol):
    """What is needed of `langsmith.Client`."""

    def read_project(self, *, project_name: str) -> Any:
        """Get a project by its name."""
        ...

    def create_feedback(self, **feedback: Any) -> object:
        """Queue feedback."""
        ...

    def flush(self) -> None:
        """Send what is queued."""
        ...


async def send_feedback(
    desk: Desk, client: LangSmithClient, *, project: str, since: datetime, until: datetime | None = None
) -> int:
    """Send feedback about everything that was settled in a time, and return how many scores it has.

    `project` is the name of the LangSmith project that has the traces. A score has an id of its own: sending it again
    replaces it. The root run of a trace has the bytes of the asker's trace id as its UUID.
    """
    found = await asyncio.to_thread(client.read_project, project_name=project)
    number = 0
    async with aclosing(scores_since(desk, since, until=until)) as pages:
        async for scores in pages:
            await asyncio.to_thread(_send, client, found.id, scores)
            number += len(scores)
    return number


def _send(client: LangSmithClient, project: uuid.UUID, scores: list[Score]) -> None:
    for score in scores:
        is_text = isinstance(score.value, str)
        client.create_feedback(
            key=score.name,
            score=None if is_text else float(score.value),
            value=score.value if is_text else None,
            trace_id=uuid.UUID(score.trace_id),
            session_id=project,
            feedback_id=score.id,
            comment=score.comment,
            source_info=dict(score.metadata),
        )
    client.flush()
