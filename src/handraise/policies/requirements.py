"""What several rules require together: the strictest value of each field, applied to a question."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from handraise.model.forms import Approval, Risk, Scope
from handraise.model.questions import Draft, Need, RequiredEvidence
from handraise.model.timelines import Step
from handraise.policies.rules import GrantLimit, Require

_RISKS: tuple[Risk, ...] = ("low", "medium", "high")
_EVIDENCE: tuple[RequiredEvidence | None, ...] = (None, "session", "passkey")
_GRANTS: tuple[GrantLimit | None, ...] = (None, "always", "session", "none")
"""From the weakest to the strictest, for each field that is compared."""
_SCOPES: Mapping[GrantLimit | None, frozenset[Scope]] = {
    None: frozenset({"once", "session", "always"}),
    "always": frozenset({"once", "session", "always"}),
    "session": frozenset({"once", "session"}),
    "none": frozenset({"once"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """All requirements of some rules together.

    `distinct` says for groups and stages how many people they need together. `named` are the people and groups who
    replace the asker's recipients, and `counted` says how many of them are needed. `also` has, for each rule with such
    people, those of whom one must agree besides all others.
    """

    needs: tuple[Need, ...]
    distinct: tuple[Need, ...]
    named: tuple[str, ...]
    counted: int
    also: tuple[tuple[str, ...], ...]
    quorum: int
    veto: bool
    evidence: RequiredEvidence | None
    risk: Risk
    grants: GrantLimit | None
    valid_for: float | None
    editable: bool

    def changes(self, draft: Draft) -> dict[str, Any]:
        """The fields in which the question that meets them differs from the one that was asked."""
        others = max(draft.quorum, self.counted)
        quorum = max(others, self.quorum, others + 1 if self.also else 1)
        values: dict[str, Any] = {
            "quorum": quorum,
            "veto": draft.veto or self.veto,
            "evidence": self.evidence,
            "needs": self._needs_of(draft),
        }
        if self.replaces or (self.needs and draft.recipients):
            named = [name for need in self.needs for name in need.people]
            asked = () if self.replaces else draft.recipients
            values["recipients"] = tuple(dict.fromkeys((*asked, *named)))
            # With other people among the recipients, the quorum alone does not say that nobody counts twice.
            everybody = {*values["recipients"], *(() if self.replaces else _escalated(draft))}
            distinct = (*self.distinct, *self._besides(draft, others))
            values["needs"] += tuple(need for need in distinct if {*need.people} != everybody)
        if self.replaces:
            values["steps"] = _only_to(draft.steps, values["recipients"])
        if self.replaces and len(values["needs"]) == 1:
            values["needs"] = ()  # recipients and quorum say the same
        if isinstance(draft.form, Approval):
            values["form"] = self._form(draft.form, alone=quorum == 1 and not values["needs"])
        return {name: value for name, value in values.items() if _differs(value, getattr(draft, name))}

    def _needs_of(self, draft: Draft) -> tuple[Need, ...]:
        """The needs; unless a rule replaces them, the asker's own recipients must agree too."""
        if self.replaces or not self.needs or not draft.recipients:
            return self.needs
        return (
            Need(tuple(dict.fromkeys((*draft.recipients, *_escalated(draft)))), draft.quorum),
            *self.needs,
        )

    def _besides(self, draft: Draft, others: int) -> Iterator[Need]:
        """For each rule with `also`: how many people it and all others need together, so that nobody counts for both."""
        rest = self.named if self.replaces else (*draft.recipients, *_escalated(draft))
        # After the last stage, if there are any: it is met at once, unless somebody counted for both.
        stage = max((need.stage for need in (*self.needs, *self.distinct)), default=0)
        yield from (Need(tuple(dict.fromkeys((*rest, *names))), others + 1, stage) for names in self.also)

    @property
    def replaces(self) -> bool:
        """Whether the asker's recipients do not count."""
        return bool(self.named)

    def _form(self, form: Approval, *, alone: bool) -> Approval:
        risk = max(form.risk, self.risk, key=_RISKS.index)
        scopes: tuple[Scope, ...] = tuple(scope for scope in form.scopes if scope in _SCOPES[self.grants])
        # Several people cannot remember an approval together, and a passkey signs one decision.
        if risk == "high" or not alone or self.evidence == "passkey":
            scopes = ("once",)
        spans = [each for each in (form.valid_for, self.valid_for) if each is not None]
        values = {
            "risk": risk,
            "scopes": scopes,
            "valid_for": min(spans, default=None),
            "editable": form.editable if self.editable else (),
        }
        # To copy a form, and to compare two, takes longer than all the rest.
        is_same = all(value == getattr(form, name) for name, value in values.items())
        return form if is_same else form.model_copy(update=values)


def together(requires: Sequence[Require]) -> Requirements:
    """What these require together."""
    spans = [each.valid_for for each in requires if each.valid_for is not None]
    replacing = [each for each in requires if each.people or each.one_of_each or each.stages]
    return Requirements(
        needs=tuple(dict.fromkeys(need for each in requires for need in needs_of(each))),
        distinct=tuple(dict.fromkeys(need for each in requires for need in distinct_of(each))),
        named=tuple(dict.fromkeys(name for each in replacing for name in each.named)),
        counted=max(map(_people_needed, replacing), default=1),
        also=tuple(dict.fromkeys(each.also for each in requires if each.also)),
        quorum=max(_people_needed(each) for each in requires),
        veto=any(each.veto or bool(each.stages) for each in requires),
        evidence=max((each.evidence for each in requires), key=_EVIDENCE.index),
        risk=max((each.risk or "low" for each in requires), key=_RISKS.index),
        grants=max((each.grants for each in requires), key=_GRANTS.index),
        valid_for=min(spans, default=None),
        editable=all(each.editable is not False for each in requires),
    )


def needs_of(require: Require) -> Iterator[Need]:
    """How many of whom a rule needs."""
    if require.people:
        yield Need(require.people, require.quorum)
    if require.also:
        yield Need(require.also)
    yield from (Need((name,)) for name in require.one_of_each)
    yield from (Need(names, 1, stage) for stage, names in enumerate(require.stages))


def distinct_of(require: Require) -> Iterator[Need]:
    """How many people groups or stages need together: at least as many as there are, of any of them.

    Only then is there a different person for each (Hall's theorem): one of A and B, and two of C, are three people, but two
    would have to be of A and B.
    """
    if require.one_of_each:
        yield from _of_several([(name,) for name in require.one_of_each], 0)
        yield Need(require.one_of_each, _people_needed(require))
    if require.stages:
        # A stage of its own, after the others: it is met at once, unless somebody counted for two of them.
        last = len(require.stages)
        yield from _of_several(require.stages, last)
        yield Need(_union(require.stages), _people_needed(require), last)


def _of_several(groups: Sequence[Sequence[str]], stage: int) -> Iterator[Need]:
    """For any two groups or more, but not all of them: as many people as there are groups."""
    for count in range(2, len(groups)):
        yield from (Need(_union(some), count, stage) for some in combinations(groups, count))


def _union(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in groups for name in names))


def _people_needed(require: Require) -> int:
    """How many people must agree, at least: as many as there are groups or stages, so that nobody counts twice."""
    return max(require.quorum, len(require.one_of_each), len(require.stages))


def _differs(one: Any, other: Any) -> bool:
    return one is not other and (isinstance(one, Approval) or bool(one != other))


def _escalated(draft: Draft) -> Iterator[str]:
    return (name for step in draft.steps for name in step.to)


def _only_to(steps: Sequence[Step], names: Collection[str]) -> tuple[Step, ...]:
    """The timeline without escalations to people whom the policy does not name; those become reminders."""
    kept = []
    for step in steps:
        to = tuple(name for name in step.to if name in names)
        kept.append(
            replace(step, do="remind", to=()) if step.do == "escalate" and not to else replace(step, to=to)
        )
    return tuple(kept)
