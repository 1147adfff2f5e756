"""Past questions, with how they ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from handraise.model.outcomes import outcome_of
from handraise.model.questions import Draft, Question, changed, posted, redrafted
from tests.policies.drafts import NOON


def ended(
    draft: Draft,
    status: str,
    record: dict[str, Any],
    *,
    asked_at: datetime = NOON,
    after: float = 60.0,
    **more: Any,
) -> Question:
    """A question that has ended."""
    outcome = outcome_of(status, asked_at + timedelta(seconds=after), record)
    return changed(posted(draft, asked_at), status=outcome.status, outcome=outcome, **more)


def decided(draft: Draft, decision: str, *, by: str = "ann", number: int = 0, **more: Any) -> Question:
    """An approval that a person decided."""
    source = more.pop("source", None)
    value = {"decision": decision, **more.pop("value", {})}
    record = {"value": value, "by": by} | ({} if source is None else {"source": source})
    return ended(redrafted(draft, id=f"q{number}"), "answered", record, **more)
