"""Suggest rules from the record: what people always approved could be allowed. Nothing is enabled automatically."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from handraise.model.forms import Approval
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined
from handraise.model.questions import Question
from handraise.model.rulings import POLICY
from handraise.policies.rules import MAX_EXPRESSION

FEWEST = 20
"""How many decisions there must be before something is suggested."""
_MOST_VALUES = 5
"""How many different texts an argument may have to be listed in a rule."""
_LONGEST_VALUE = 60
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A rule that would allow what people approved, and what it is based on.

    `bounds` say the same as the rule's expression about the arguments, in few words. `unbounded` are the arguments that
    the rule does not limit.
    """

    agent: str
    tool: str
    decisions: int
    people: int
    median_wait: float
    bounds: tuple[str, ...]
    unbounded: tuple[str, ...]
    rule: dict[str, Json]


@dataclass(slots=True)
class _Argument:
    """The values that an argument had, as far as a rule can limit them."""

    times: int = 0
    numbers: int = 0
    least: float = 0.0
    most: float = 0.0
    values: set[str | bool] | None = field(default_factory=set)

    def add(self, value: Json) -> None:
        self.times += 1
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.least = min(self.least, value) if self.numbers else value
            self.most = max(self.most, value) if self.numbers else value
            self.numbers += 1
            self.values = None
        elif self.values is not None and isinstance(value, (str, bool)) and len(str(value)) <= _LONGEST_VALUE:
            self.values.add(value)
            if len(self.values) > _MOST_VALUES:
                self.values = None
        else:
            self.values = None


@dataclass(slots=True)
class _Case:
    """The decisions about one tool of one agent."""

    decisions: int = 0
    is_clean: bool = True
    people: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)
    arguments: dict[str, _Argument] = field(default_factory=dict)


class Suggestions:
    """Collects decisions of people about actions, and suggests rules for those that were always approved."""

    def __init__(self, *, fewest: int = FEWEST) -> None:
        self._fewest = fewest
        self._cases: dict[tuple[str, str], _Case] = {}

    def add(self, questions: Iterable[Question]) -> None:
        """Count some settled questions."""
        for question in questions:
            if isinstance(question.form, Approval):
                self._add(question, question.form)

    def _add(self, question: Question, form: Approval) -> None:
        outcome = question.outcome
        if (
            not isinstance(outcome, (Answered, Declined))
            or outcome.by is None
            or outcome.by.startswith(POLICY)
        ):
            return
        if isinstance(outcome, Answered) and outcome.source != "person":
            return
        case = self._cases.setdefault((question.asker, form.action.tool), _Case())
        decision = question.decision
        # An edited action was not approved as it was asked. High risk is for people to decide, however often they agree.
        if (
            decision is None
            or not decision.approved
            or decision.edited
            or question.taken_back_at is not None
            or form.risk == "high"
        ):
            case.is_clean = False
        if not case.is_clean:
            return
        case.decisions += 1
        case.people.update(vote.by for vote in question.votes)
        case.people.add(outcome.by)
        case.waits.append((outcome.at - question.asked_at).total_seconds())
        for name, value in form.action.arguments.items():
            case.arguments.setdefault(name, _Argument()).add(value)

    def found(self) -> Sequence[Suggestion]:
        """The suggestions, those that would save the most questions first."""
        clean = [
            (agent, tool, case)
            for (agent, tool), case in self._cases.items()
            if case.is_clean and case.decisions >= self._fewest
        ]
        clean.sort(key=lambda each: (-each[2].decisions, each[0], each[1]))
        suggested = [_suggestion(agent, tool, case) for agent, tool, case in clean]
        return [each for each in suggested if len(each.rule["when"]) <= MAX_EXPRESSION]


def _suggestion(agent: str, tool: str, case: _Case) -> Suggestion:
    conditions = [f"agent == {_text(agent)}", f"tool == {_text(tool)}"]
    bounds, unbounded = [], []
    for name, argument in sorted(case.arguments.items()):
        limits = list(_limits(name, argument))
        if not limits:
            unbounded.append(name)
            continue
        bounds.append(_in_words(name, argument))
        condition = " && ".join(limits)
        if argument.times < case.decisions:  # it was not always given
            condition = f"(!({_text(name)} in args) || ({condition}))"
        conditions.append(condition)
    # An argument that nobody has seen yet is for people to look at.
    known = ", ".join(_text(name) for name in sorted(case.arguments))
    conditions.append(f"args.all(name, name in [{known}])")
    rule: dict[str, Json] = {
        "name": f"{agent}: {tool}"[:100].strip(),
        "when": " && ".join(conditions),
        "then": {"allow": {"check": 0.05}},
        "mode": "observe",
    }
    return Suggestion(
        agent=agent,
        tool=tool,
        decisions=case.decisions,
        people=len(case.people),
        median_wait=median(case.waits),
        bounds=tuple(bounds),
        unbounded=tuple(unbounded),
        rule=rule,
    )


def _limits(name: str, argument: _Argument) -> Iterator[str]:
    place = f"args.{name}" if _NAME.fullmatch(name) and name not in _RESERVED else f"args[{_text(name)}]"
    if argument.numbers == argument.times:
        yield f"{place} >= {_number(min(argument.least, 0))}"
        yield f"{place} <= {_number(argument.most)}"
    elif argument.values:
        yield f"{place} in [{', '.join(map(_literal, sorted(argument.values, key=str)))}]"


def _in_words(name: str, argument: _Argument) -> str:
    if argument.numbers == argument.times:
        return f"{name} ≤ {_number(argument.most)}"
    values = sorted(argument.values or (), key=str)
    joined = " or ".join(map(_literal, values))
    return f"{name} is {joined}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


def _literal(value: str | bool) -> str:  # noqa: FBT001 -- one of the values that an argument can have
    return _text(value) if isinstance(value, str) else str(value).lower()


def _text(value: str) -> str:
    """A text as CEL and JSON write it."""
    return json.dumps(value, ensure_ascii=False)
