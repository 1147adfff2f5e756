"""Views of pending questions: filters of `Desk.list_pending`, and the result of `Desk.count_views`."""

from handraise.model.pending_views import MOST_COUNTED, VIEWS, Order, PendingFilters, ViewCounts, ViewName

__all__ = [
    "MOST_COUNTED",
    "VIEWS",
    "Order",
    "PendingFilters",
    "ViewCounts",
    "ViewName",
]
