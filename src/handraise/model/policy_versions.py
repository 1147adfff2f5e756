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
