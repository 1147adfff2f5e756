"""The stored versions of a workspace's policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from handraise.model.json_values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A version of a workspace's policy: its document, who stored it, and when. Versions are numbered from 1."""

    workspace: str
    version: int
    document: Json = field(repr=False)
    by: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """A rule that allows nothing any more, because a person denied a question that was a spot check of it.

    `rule` is the rule's digest: a rule that is written differently is another one.
    """

    workspace: str
    rule: str
    question_id: str
    by: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPolicy:
    """The latest version of a policy, and the suspensions of its workspace's rules."""

    version: PolicyVersion
    suspensions: tuple[Suspension, ...] = ()


def policy_changes(before: Json, after: Json) -> dict[str, Json]:
    """What differs between two documents: the rules by their names, and other settings, each before and after."""
    one, other = _policy_parts(before), _policy_parts(after)
    return {
        name: {"from": one.get(name), "to": other.get(name)}
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    }


def _policy_parts(document: Json) -> dict[str, Json]:
    """The parts of a policy document that are compared: each rule by its name, and every other setting."""
    if not isinstance(document, dict):
        return {}
    rules = document.get("rules", [])
    others = {name: value for name, value in document.items() if name != "rules"}
    order: Json = [each.get("name") for each in rules]
    return others | {"order of rules": order} | {f"rule {each.get('name')}": each for each in rules}
