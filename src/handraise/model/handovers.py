"""To whom people handed a question over, read from its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from handraise.model.events import Event, EventKind

INBOX_EVENTS = (EventKind.HANDED_OVER, EventKind.SET_ASIDE, EventKind.PUT_BACK)
"""The kinds of events with which a person's inbox gains or loses a question by their own act."""


def handovers(events: Iterable[Event]) -> dict[str, Sequence[str]]:
    """For each person who handed the question over, the names they gave it to; the latest of them last.

    Somebody who put it back into their inbox, or set it aside, after that is not among them.
    """
    given: dict[str, Sequence[str]] = {}
    for event in events:
        if event.by is None or event.kind not in INBOX_EVENTS:
            continue
        given.pop(event.by, None)
        if event.kind is EventKind.HANDED_OVER:
            given[event.by] = _names(event)
    return given


def receivers(given: Mapping[str, Sequence[str]], person: str) -> set[str]:
    """Everybody who got it from this person: those they gave it to, those to whom these gave it, and so on."""
    found: set[str] = set()
    todo = [person]
    while todo:
        new = set(given.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found


def _names(event: Event) -> Sequence[str]:
    data = event.data if isinstance(event.data, dict) else {}
    names = data.get("to")
    return [str(each) for each in names] if isinstance(names, list) else []
