"""Views of pending questions: the ones that are built in, what else they can be filtered by, and their orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Literal, get_args

from handraise.model.forms import Risk
from handraise.model.urgency import NOT_HIGH, rank_at

ViewName = Literal["urgent", "approvals", "mine", "vote_missing", "agents_turn", "snoozed"]
"""The built-in views. `mine`, `vote_missing` and `snoozed` are about one person."""
VIEWS: tuple[ViewName, ...] = get_args(ViewName)
"""The names of all built-in views."""
OF_A_PERSON = frozenset(("mine", "vote_missing", "snoozed"))

FormKind = Literal["choice", "multi_choice", "open", "confirm", "form", "approval", "file"]
Order = Literal["age", "urgency", "newest", "expiry"]
"""`age` is the oldest first, `urgency` that of an inbox, `expiry` those first that expire first."""

LONGEST = timedelta(days=3_650)
"""The longest span of a filter."""
MOST_COUNTED = 500
"""Up to this number the questions of a view are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFilters:
    """What a list of pending questions is narrowed to. None does not filter."""

    view: ViewName | None = None
    kind: FormKind | None = None
    risk: Risk | None = None
    tool: str | None = None
    expires_within: timedelta | None = None
    older_than: timedelta | None = None

    @property
    def any(self) -> bool:
        """Whether anything is filtered."""
        return any(getattr(self, each.name) is not None for each in fields(self))


NO_FILTERS = PendingFilters()


@dataclass(frozen=True, slots=True)
class ViewCounts:
    """How many questions a person has in their inbox, and in each view of it; no more than `MOST_COUNTED` each.

    `more` says that not all questions were looked at, so there may be others.
    """

    waiting: int
    views: dict[ViewName, int]
    more: bool = False


def counted_views(numbers: Mapping[str, int], *, more: bool) -> ViewCounts:
    """The numbers of questions in each view, and of all that wait, as a statement counted them."""
    counts = {name: min(numbers.get(name, 0), MOST_COUNTED) for name in VIEWS}
    return ViewCounts(min(numbers.get("waiting", 0), MOST_COUNTED), counts, more=more)


def check_filters(filters: PendingFilters, *, has_person: bool) -> None:
    """Refuse a view of one person's own questions if there is no such person, and a span that no question has."""
    if filters.view in OF_A_PERSON and not has_person:
        raise ValueError(f"the view {filters.view!r} is about one person: give a recipient")
    for span in (filters.expires_within, filters.older_than):
        if span is not None and not timedelta(0) <= span <= LONGEST:
            raise ValueError(f"{span} is not between nothing and ten years")


def rank_of(urgency: int, order: Order, soon: int) -> int:
    """The number by which an order sorts, before the id, while the seconds up to `soon` are soon."""
    if order == "urgency":
        return rank_at(urgency, soon)
    return urgency % NOT_HIGH if order == "expiry" else 0
