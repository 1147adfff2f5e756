"""The rules of a policy that name an agent or a tool, with the lines on which the policy's page has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from handraise.desk.rule_suspensions import suspended_rules
from handraise.model.policy_versions import CurrentPolicy
from handraise.model.visible import visible, visible_line
from handraise.policies.policy_file import rule_lines, write_document
from handraise.policies.rules import parse_policy
from handraise.presentation.ruling_text import effect_text, mode_text
from handraise.presentation.translation import gettext

_LITERALS = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamingRule:
    """A rule that names something. Everything in it may be shown as it is."""

    name: str
    line: int
    condition: str
    effect: str
    mode: str


def naming_rules(current: CurrentPolicy | None, name: str) -> Sequence[NamingRule]:
    """The rules of the latest version whose condition has this name as a text."""
    if current is None:
        return []
    document = current.version.document
    rules = parse_policy(document).rules
    naming = [(place, rule) for place, rule in enumerate(rules) if name in names_in(rule.when)]
    if not naming:
        return []
    lines = rule_lines(write_document(document))
    suspended = {each.name for each in suspended_rules(current)}
    return [
        NamingRule(
            visible_line(rule.name),
            lines[place],
            visible(rule.when),
            effect_text(rule.effect),
            gettext("suspended") if rule.name in suspended else mode_text(rule.mode),
        )
        for place, rule in naming
    ]


def names_in(condition: str) -> set[str]:
    """The texts in quotes of a condition."""
    return {_ESCAPED.sub(r"\1", double or single) for double, single in _LITERALS.findall(condition)}
