"""Langfuse: what people decided becomes scores on the traces of agents. `pip install "handraise[langfuse]"`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import Any, Protocol

from handraise import Desk
from handraise.evaluation.scores import Score, ScoreKind, scores_since

_TYPES: dict[ScoreKind, str] = {"number": "NUMERIC", "category": "CATEGORICAL", "boolean": "BOOLEAN"}


class LangfuseClient(Protocol):
    """What is needed of `langfuse.Langfuse`."""

    def auth_check(self) -> bool:
        """Whether its keys are those of a project; raises the SDK's error if Langfuse refuses them."""
        ...

    def create_score(self, **score: Any) -> object:
        """Queue a score."""
        ...

    def flush(self) -> None:
        """Send what is queued."""
        ...


async def send_scores(
    desk: Desk, client: LangfuseClient, *, since: datetime, until: datetime | None = None
) -> int:
    """Send the scores of everything that was settled in a time, and return how many they are.

    A score has an id of its own: sending it again replaces it. A Langfuse trace has the id of the asker's trace. The SDK
    only logs what it could not send, so the keys are checked before anything is sent.
    """
    if not await asyncio.to_thread(client.auth_check):
        raise PermissionError(
            "This Langfuse client has no keys of a project: set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."
        )
    number = 0
    async with aclosing(scores_since(desk, since, until=until)) as pages:
        async for scores in pages:
            await asyncio.to_thread(_send, client, scores)
            number += len(scores)
    return number


def _send(client: LangfuseClient, scores: list[Score]) -> None:
    for score in scores:
        client.create_score(
            score_id=str(score.id),
            name=score.name,
            value=score.value if isinstance(score.value, str) else float(score.value),
            data_type=_TYPES[score.kind],
            trace_id=score.trace_id,
            comment=score.comment,
            metadata=score.metadata,
            timestamp=score.at,
        )
    client.flush()
