"""The history of questions."""

from handraise.model.events import Event, EventKind

__all__ = [
    "Event",
    "EventKind",
]
