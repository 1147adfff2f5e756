"""What to tell an asker whose question is addressed to a name that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from handraise.model.people import GROUP
from handraise.model.questions import Draft

_AT_MOST = 3
_SHOWN = 60


def recipients_of(draft: Draft) -> Sequence[tuple[str, str]]:
    """Everybody a question is addressed to, at once or when it escalates, each with the path that names them."""
    named = [(f"recipients[{place}]", name) for place, name in enumerate(draft.recipients)]
    return named + [("timeline.escalate", name) for step in draft.steps for name in step.to]


def nearest(name: str, known: Sequence[str]) -> Sequence[str]:
    """The known names with the most similar spelling, also if only one of the two is a group."""
    spelt: dict[str, list[str]] = {}
    for each in known:
        spelt.setdefault(_bare(each), []).append(each)
    close = difflib.get_close_matches(_bare(name), spelt, _AT_MOST)
    return [each for spelling in close for each in spelt[spelling]][:_AT_MOST]


def unknown_recipient(name: str, near: Sequence[str]) -> str:
    """What is wrong with a name that nobody has, and what to do."""
    what = "there is no such group here" if name.startswith(GROUP) else "nobody here has this name"
    said = f"{name[:_SHOWN]!r}: {what}"
    if near:
        return f"{said}; did you mean {' or '.join(map(repr, near))}?"
    command = "groups set" if name.startswith(GROUP) else "people add"
    return f"{said}; add them first, with: handraise {command}"


def _bare(name: str) -> str:
    return name.removeprefix(GROUP).casefold()
