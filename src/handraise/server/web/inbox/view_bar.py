"""The bar above the waiting questions: built-in views with their numbers, and the filters and orders of the address."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast, get_args

from handraise.model.pending_views import (
    MOST_COUNTED,
    OF_A_PERSON,
    VIEWS,
    FormKind,
    Order,
    PendingFilters,
    ViewCounts,
    ViewName,
)
from handraise.model.questions import Question
from handraise.model.stops import tool_of
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext, gettext_noop, pgettext
from handraise.server.web.inbox.search import Offered, View
from handraise.server.web.inbox.settled_filters import RISK_NAMES

_K = TypeVar("_K", bound=str)

_VIEWS: Mapping[ViewName, str] = {
    "urgent": gettext_noop("Urgent"),
    "approvals": gettext_noop("Approvals"),
    "mine": gettext_noop("For me"),
    "vote_missing": gettext_noop("My vote missing"),
    "agents_turn": gettext_noop("Waiting on agent"),
    "snoozed": gettext_noop("Set aside"),
}
_KINDS: Mapping[FormKind, str] = {
    "choice": gettext_noop("One of several options"),
    "multi_choice": gettext_noop("Several options"),
    "open": gettext_noop("Free text"),
    "confirm": gettext_noop("Yes or no"),
    "form": gettext_noop("A form"),
    "approval": gettext_noop("An approval"),
    "file": gettext_noop("A file"),
}
_ENDS: Mapping[str, tuple[timedelta, str]] = {
    "1h": (timedelta(hours=1), gettext_noop("within an hour")),
    "1d": (timedelta(days=1), gettext_noop("within a day")),
    "7d": (timedelta(days=7), gettext_noop("within a week")),
}
_AGES: Mapping[str, tuple[timedelta, str]] = {
    "1h": (timedelta(hours=1), gettext_noop("over an hour")),
    "1d": (timedelta(days=1), gettext_noop("over a day")),
    "7d": (timedelta(days=7), gettext_noop("over a week")),
}
_ORDERS: Mapping[Order, str] = {
    "urgency": gettext_noop("most urgent first"),
    "newest": gettext_noop("newest first"),
    "age": gettext_noop("oldest first"),
    "expiry": gettext_noop("those that expire first"),
}
_ORDER_NAMES: Mapping[Order, str] = {
    "urgency": gettext_noop("by urgency"),
    "newest": gettext_noop("newest first"),
    "age": gettext_noop("oldest first"),
    "expiry": gettext_noop("by expiry"),
}


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A view of the bar."""

    name: str
    href: str
    number: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class FilterField:
    """A filter of the form."""

    name: str
    label: str
    all: str
    options: tuple[Offered, ...]
    chosen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBar:
    """What the page shows of the views."""

    links: tuple[ViewLink, ...]
    fields: tuple[FilterField, ...]
    chips: tuple[tuple[str, str, str], ...]
    """The filters that are set: the address without it, its label, and its text."""
    order: str
    view: str


def filters_of(view: View) -> PendingFilters:
    """The filters that the address asks for. Values that do not exist are ignored."""
    given = dict(view.extra)
    name = _one_of(_VIEWS, given.get("view"))
    if view.everything and name in OF_A_PERSON:
        name = None
    return PendingFilters(
        view=name,
        kind=_one_of(_KINDS, given.get("kind")),
        risk=_one_of(RISK_NAMES, given.get("risk")),
        tool=given.get("tool") or None,
        expires_within=_ENDS[given["expires"]][0] if given.get("expires") in _ENDS else None,
        older_than=_AGES[given["age"]][0] if given.get("age") in _AGES else None,
    )


def known_filters(view: View) -> tuple[tuple[str, str], ...]:
    """The filters and the order of the address, without values that do not exist."""
    filters, given = filters_of(view), dict(view.extra)
    order = order_of(view)
    known = {
        "view": filters.view,
        "kind": filters.kind,
        "risk": filters.risk,
        "tool": filters.tool,
        "expires": _known(_ENDS, given.get("expires")),
        "age": _known(_AGES, given.get("age")),
        "sort": None if order == "urgency" else order,
    }
    return tuple((name, value) for name, value in known.items() if value)


def order_of(view: View) -> Order:
    """The order that the address asks for."""
    asked = dict(view.extra).get("sort")
    return cast("Order", asked) if asked in get_args(Order) else "urgency"


def view_bar(view: View, counts: ViewCounts | None, questions: Collection[Question]) -> ViewBar:
    """The bar of a list. There are no numbers for a whole workspace."""
    filters, order = filters_of(view), order_of(view)
    names = [name for name in VIEWS if not (view.everything and name in OF_A_PERSON)]
    number = None if counts is None else counts.waiting
    links = [ViewLink(gettext("All"), _address(view, view=""), _number(number, counts), filters.view is None)]
    for name in names:
        number = None if counts is None else counts.views[name]
        is_current = filters.view == name
        links.append(
            ViewLink(gettext(_VIEWS[name]), _address(view, view=name), _number(number, counts), is_current)
        )
    given = dict(view.extra)
    fields = (
        FilterField(
            "kind", gettext("Kind"), pgettext("kind", "any"), _ours(_KINDS.items()), filters.kind or ""
        ),
        FilterField(
            "risk", gettext("Risk"), pgettext("risk", "any"), _ours(RISK_NAMES.items()), filters.risk or ""
        ),
        FilterField(
            "tool",
            gettext("Tool"),
            pgettext("tool", "any"),
            _tools(questions, filters.tool),
            filters.tool or "",
        ),
        FilterField(
            "expires",
            gettext("Expires"),
            pgettext("expires", "at any time"),
            _spans(_ENDS),
            _known(_ENDS, given.get("expires")),
        ),
        FilterField(
            "age",
            gettext("Waits for"),
            pgettext("age", "any time"),
            _spans(_AGES),
            _known(_AGES, given.get("age")),
        ),
        FilterField(
            "sort",
            gettext("Order"),
            gettext(_ORDER_NAMES["urgency"]),
            _ours(each for each in _ORDER_NAMES.items() if each[0] != "urgency"),
            "" if order == "urgency" else order,
        ),
    )
    chips = tuple(
        (
            _address(view, **{each.name: ""}),
            each.label,
            next(o.shown for o in each.options if o.value == each.chosen),
        )
        for each in fields
        if each.chosen
    )
    return ViewBar(
        links=tuple(links),
        fields=tuple(each for each in fields if each.options),
        chips=chips,
        order=gettext(_ORDERS[order]),
        view=filters.view or "",
    )


def _address(shown: View, /, **changes: str) -> str:
    given = {**dict(shown.extra), **changes}
    return shown.address(extra=tuple((name, value) for name, value in given.items() if value))


def _number(number: int | None, counts: ViewCounts | None) -> str:
    if number is None or counts is None:
        return ""
    return f"{number}+" if counts.more or number >= MOST_COUNTED else str(number)


def _one_of(known: Mapping[_K, object], asked: str | None) -> _K | None:
    return next((each for each in known if each == asked), None)


def _known(known: Collection[str], asked: str | None) -> str:
    return asked if asked is not None and asked in known else ""


def _ours(named: Iterable[tuple[str, str]]) -> tuple[Offered, ...]:
    return tuple(Offered(value, gettext(text), ours=True) for value, text in named)


def _spans(spans: Mapping[str, tuple[timedelta, str]]) -> tuple[Offered, ...]:
    return _ours((value, text) for value, (_, text) in spans.items())


def _tools(questions: Collection[Question], chosen: str | None) -> tuple[Offered, ...]:
    names = {tool for each in questions if (tool := tool_of(each)) is not None}
    if chosen is not None:
        names.add(chosen)
    return tuple(Offered(name, visible_line(name)[:60]) for name in sorted(names))
