"""How questions end."""

from handraise.model.decisions import Decision
from handraise.model.outcomes import (
    Answered,
    Declined,
    Exhausted,
    Expired,
    Outcome,
    Returned,
    Status,
    Withdrawn,
)

__all__ = [
    "Answered",
    "Decision",
    "Declined",
    "Exhausted",
    "Expired",
    "Outcome",
    "Returned",
    "Status",
    "Withdrawn",
]
