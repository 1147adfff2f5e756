"""Who or what ended questions, in sets that people look for: people, rules, nobody, and each source of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from handraise.model.statistics import Way
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.web.inbox.search import Offered

EndedBy: TypeAlias = Literal[
    "people",
    "rules",
    "nobody",
    "person",
    "policy",
    "grant",
    "standing",
    "shared",
    "default",
    "missed",
    "otherwise",
]
"""A set of ways to end, as the address of the settled questions has it."""

WAYS: Mapping[EndedBy, tuple[Way, ...]] = {
    "people": ("person", "declined", "returned"),
    "rules": ("policy", "grant", "standing", "shared"),
    "nobody": ("default", "expired", "exhausted", "withdrawn"),
    "person": ("person",),
    "policy": ("policy",),
    "grant": ("grant",),
    "standing": ("standing",),
    "shared": ("shared",),
    "default": ("default",),
    "missed": ("expired", "exhausted"),
    "otherwise": ("policy", "grant", "standing", "shared", "default", "declined", "withdrawn"),
}
"""The ways to end in each set. The first three have every way once."""

_NAMES: Mapping[EndedBy, str] = {
    "people": gettext_noop("people"),
    "rules": gettext_noop("the policy, a grant or an earlier answer"),
    "nobody": gettext_noop("nobody"),
    "person": gettext_noop("a person, with an answer"),
    "policy": gettext_noop("the policy"),
    "grant": gettext_noop("a grant"),
    "standing": gettext_noop("a standing answer"),
    "shared": gettext_noop("the answer to an equal question"),
    "default": gettext_noop("the default of the agent"),
    "missed": gettext_noop("nobody: expired or exhausted"),
    "otherwise": gettext_noop("a rule, a default, a decline or a withdrawal"),
}


def ended_by(text: str) -> EndedBy | None:
    """The set with this name, or None if there is none."""
    return next((each for each in get_args(EndedBy) if each == text), None)


def ended_by_name(which: EndedBy) -> str:
    """A set as people read it, after "by"."""
    return gettext(_NAMES[which])


def ended_by_offers() -> Sequence[Offered]:
    """All sets, as options of the filter."""
    return [Offered(each, ended_by_name(each), ours=True) for each in WAYS]
