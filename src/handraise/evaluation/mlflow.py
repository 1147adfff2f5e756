"""MLflow: what people decided becomes feedback on the traces of agents. `pip install "handraise[mlflow]"`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from importlib import import_module
from typing import Any

from handraise import Desk
from handraise.errors import MissingExtra
from handraise.evaluation.scores import Score, scores_since

try:
    _mlflow: Any = import_module("mlflow")
    _entities: Any = import_module("mlflow.entities")
    _exceptions: Any = import_module("mlflow.exceptions")
except ImportError as error:
    raise MissingExtra(error.name or "mlflow", "mlflow") from error

_SCORE = "handraise_score"
_MISSING = frozenset({"NOT_FOUND", "RESOURCE_DOES_NOT_EXIST"})


async def log_feedback(desk: Desk, *, since: datetime, until: datetime | None = None) -> int:
    """Log feedback about everything that was settled in a time, and return how many scores were new.

    It goes to the tracking server of `mlflow.set_tracking_uri`; raises `MlflowException` if that cannot be reached. What a trace has already is left as it is, and a score
    whose trace is not there is left out. MLflow's trace has the id of the asker's trace, after `tr-`. Run one at a time:
    MLflow gives feedback an id itself, so two that run at once could both add it.
    """
    number = 0
    async with aclosing(scores_since(desk, since, until=until)) as pages:
        async for scores in pages:
            number += await asyncio.to_thread(_log, scores)
    return number


def _log(scores: list[Score]) -> int:
    """Log what is not there yet, and say how many that were."""
    known: dict[str, set[str] | None] = {}
    number = 0
    for score in scores:
        trace_id = f"tr-{score.trace_id}"
        if trace_id not in known:
            known[trace_id] = _known(trace_id)
        there = known[trace_id]
        if there is None or str(score.id) in there:
            continue
        _mlflow.log_feedback(
            trace_id=trace_id,
            name=score.name,
            value=score.value,
            source=_entities.AssessmentSource(
                source_type=_entities.AssessmentSourceType.HUMAN, source_id=score.by or "unknown"
            ),
            rationale=score.comment,
            metadata={**score.metadata, _SCORE: str(score.id)},
        )
        there.add(str(score.id))
        number += 1
    return number


def _known(trace_id: str) -> set[str] | None:
    """The ids of our scores that a trace has; None if there is no such trace."""
    try:
        # `mlflow.get_trace` returns None for every error.
        trace = _mlflow.MlflowClient().get_trace(trace_id, display=False)
    except _exceptions.MlflowException as error:
        if error.error_code in _MISSING:
            return None
        raise
    logged = (each.metadata or {} for each in trace.info.assessments)
    return {each[_SCORE] for each in logged if _SCORE in each}
