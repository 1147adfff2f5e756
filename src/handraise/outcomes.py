"""How questions end."""

from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Status, Withdrawn
from handraise.model.validation import Decision

__all__ = [
    "Answered",
    "Decision",
    "Declined",
    "Exhausted",
    "Expired",
    "Outcome",
    "Status",
    "Withdrawn",
]
