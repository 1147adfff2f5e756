"""Working time in timelines as they cross the wire: the words of the sender beside the seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from handraise.model.durations import WORKING_PATTERN, WorkingSpan
from handraise.model.timelines import Timeline

_IS_WORKING = re.compile(WORKING_PATTERN)


def working_words(timeline: Timeline) -> dict[str, str]:
    """The words of a timeline's working time, by the place where they were written."""
    spans = {f"remind.{place}": span for place, span in enumerate(timeline.remind)}
    spans |= {f"escalate.{place}": each.after for place, each in enumerate(timeline.escalate)}
    if timeline.expire is not None:
        spans["expire"] = timeline.expire
    return {place: span.words for place, span in spans.items() if isinstance(span, WorkingSpan)}


def noted_working_time(given: dict[Any, Any]) -> dict[Any, Any]:
    """A timeline that somebody sent, with seconds instead of working time, and the words in `working`."""
    words: dict[str, str] = {}

    def seconds(place: str, span: Any) -> Any:
        if not (isinstance(span, str) and _IS_WORKING.match(span)):
            return span
        words[place] = span
        return WorkingSpan(span).total_seconds()

    changed = dict(given)
    if isinstance(given.get("remind"), (list, tuple)):
        changed["remind"] = [seconds(f"remind.{n}", each) for n, each in enumerate(given["remind"])]
    if isinstance(given.get("escalate"), (list, tuple)):
        changed["escalate"] = [
            {**each, "after": seconds(f"escalate.{n}", each["after"])}
            if isinstance(each, dict) and "after" in each
            else each
            for n, each in enumerate(given["escalate"])
        ]
    if "expire" in given:
        changed["expire"] = seconds("expire", given["expire"])
    if not words:
        return given
    said = given.get("working")
    return changed | {"working": {**said, **words} if isinstance(said, dict) else words}


def span_in(place: str, seconds: float, words: dict[str, str]) -> timedelta:
    """The span at a place of a timeline. Raises `OverflowError` if it is too long, `ValueError` for other words."""
    length = timedelta(seconds=seconds)
    return WorkingSpan(words[place], length) if place in words else length
