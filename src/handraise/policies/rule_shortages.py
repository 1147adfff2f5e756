"""Whether there are enough people for what the rules require."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from handraise.model.people import GROUP
from handraise.model.questions import Need
from handraise.policies.requirements import distinct_of, needs_of
from handraise.policies.rules import Policy, Require


@dataclass(frozen=True, slots=True, kw_only=True)
class Staffing:
    """How many people a rule needs of some people and groups, and how many there are; without names, of everybody."""

    rule: str
    names: tuple[str, ...]
    needed: int
    there: int

    @property
    def is_short(self) -> bool:
        """Whether nobody can fulfil it. Otherwise there are just as many as it needs."""
        return self.there < self.needed

    @property
    def text(self) -> str:
        """A sentence about it, for an operator."""
        people = "1 person" if self.needed == 1 else f"{self.needed} people"
        of = f" of {', '.join(self.names)}" if self.names else ""
        needs = f"rule {self.rule!r} needs {people}{of}"
        if self.is_short:
            there = "there is only 1" if self.there == 1 else f"there are only {self.there}"
            return (
                f"{needs}, but {there}. Nobody can fulfil it."
                if self.there
                else f"{needs}, but there is nobody."
            )
        return f"{needs}, and there {'is' if self.there == 1 else 'are'} exactly {self.there}. One absence blocks it."


def staffing_of(
    policy: Policy, people: Collection[str], groups: Mapping[str, Collection[str]]
) -> list[Staffing]:
    """The rules that nobody can fulfil, and those that need everybody there is. Rules that only observe are left out.

    `people` are all who may answer now, and `groups` their groups. Without people, nobody knows, and the list is empty.
    """
    if not people:
        return []
    members = {f"{GROUP}{name}": {*people} & {*some} for name, some in groups.items()}
    found: list[Staffing] = []
    for rule in policy.rules:
        if rule.then.require is not None and rule.mode == "enforce":
            found += _of_rule(rule.name, rule.then.require, {*people}, members)
    return found


def _of_rule(
    rule: str, require: Require, people: set[str], members: Mapping[str, set[str]]
) -> Sequence[Staffing]:
    """What is short in a rule, or if nothing is, the first need that has just enough people."""
    exact: list[Staffing] = []
    for needs in (needs_of(require), distinct_of(require), _of_anybody(require)):
        counted = [
            Staffing(
                rule=rule, names=need.people, needed=need.count, there=_count(need.people, people, members)
            )
            for need in needs
        ]
        if short := [each for each in counted if each.is_short]:
            return short
        exact += [each for each in counted if each.there == each.needed and _has_group(each.names)]
    return exact[:1]


def _of_anybody(require: Require) -> Iterator[Need]:
    """The people of a rule that takes whom the asker names: that many must be there at all."""
    if not require.named and require.quorum > 1:
        yield Need((), require.quorum)


def _count(names: Sequence[str], people: set[str], members: Mapping[str, set[str]]) -> int:
    if not names:
        return len(people)
    return len(
        set().union(
            *(members.get(name, set()) if name.startswith(GROUP) else {name} & people for name in names)
        )
    )


def _has_group(names: Sequence[str]) -> bool:
    return any(name.startswith(GROUP) for name in names)
