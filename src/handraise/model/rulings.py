"""What the policy of a workspace decided about a question when it was posted. The record stays with the question."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

from handraise.model.json_values import Json

RuleMode = Literal["enforce", "observe"]
"""Whether a rule decides (enforce), or is only recorded (observe)."""
Effect = Literal["deny", "require", "allow"]
"""What a rule does to the questions that it matches."""

POLICY = "policy:"
"""Prefix of the name that an outcome has as its `by` if a rule decided; the rule's name follows. Nobody has such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A rule that matched a question. `failed` means that its expression could not be evaluated."""

    rule: str
    effect: Effect
    mode: RuleMode = "enforce"
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Which version of the policy applied to a question, which of its rules matched, and what they changed.

    `asked` has what the asker had asked for, for each part that the policy changed. `checked` is the digest of the rule
    that would have allowed the question, if it went to people as a spot check of that rule. `names_people` says that the
    policy named who answers instead of the asker, so people cannot let others answer. `close_orphans` is for how many
    seconds nobody may wait for the answer before the question is withdrawn. `standing` is the id of the standing answer
    that the question is a spot check of. `ending` settles the question when it is posted; it is stored as the question's
    outcome and not with the ruling. Without a policy, `version` is 0.
    """

    version: int
    matches: tuple[Match, ...] = ()
    asked: dict[str, Json] = field(default_factory=dict)
    checked: str | None = None
    names_people: bool = False
    standing: str | None = None
    close_orphans: float | None = None
    ending: Ending | None = field(default=None, compare=False)

    @cached_property
    def text(self) -> str:
        """The JSON text of the ruling. Most questions of an agent share one ruling, so it is written once."""
        checked = "" if self.checked is None else f', "checked": {json.dumps(self.checked)}'
        named = ', "names_people": true' if self.names_people else ""
        closes = "" if self.close_orphans is None else f', "close_orphans": {self.close_orphans!r}'
        standing = "" if self.standing is None else f', "standing": {json.dumps(self.standing)}'
        matches, rest = _matches_text(self.matches), f"{checked}{named}{closes}{standing}"
        return f'{{"version": {self.version}, "matches": {matches}, "asked": {json.dumps(self.asked)}{rest}}}'

    @property
    def is_stored(self) -> bool:
        """Whether it says anything to remember: a standing answer that settles a question is in its outcome."""
        return self.version > 0 or self.standing is not None

    def to_json(self) -> dict[str, Json]:
        """The ruling as it is stored and sealed."""
        matches = [_match_json(each) for each in self.matches]
        stored: dict[str, Json] = {"version": self.version, "matches": matches, "asked": self.asked}
        if self.checked is not None:
            stored["checked"] = self.checked
        if self.names_people:
            stored["names_people"] = True
        if self.standing is not None:
            stored["standing"] = self.standing
        if self.close_orphans is not None:
            stored["close_orphans"] = self.close_orphans
        return stored


def _match_json(match: Match) -> dict[str, Json]:
    stored = {"rule": match.rule, "effect": match.effect, "mode": match.mode}
    return {**stored, "failed": True} if match.failed else stored


@lru_cache(maxsize=1_000)
def _matches_text(matches: tuple[Match, ...]) -> str:
    return json.dumps([_match_json(each) for each in matches])


@dataclass(frozen=True, slots=True)
class Ending:
    """How a question is settled at once: the status, the record of its outcome, and what settles it.

    That is a rule of the policy, by its digest, or a standing answer, by its id.
    """

    status: Literal["answered", "declined"]
    record: dict[str, Json]
    rule: str | None = None
    standing: str | None = None


def ruling_from_json(stored: dict[str, Any] | None) -> Ruling | None:
    """The ruling that is stored with a question, or None if no policy applied to it."""
    if stored is None:
        return None
    return Ruling(
        version=stored["version"],
        matches=tuple(Match(**each) for each in stored["matches"]),
        asked=stored["asked"],
        checked=stored.get("checked"),
        names_people=stored.get("names_people", False),
        standing=stored.get("standing"),
        close_orphans=stored.get("close_orphans"),
    )
