"""Apply a policy to a question: which rules match, what they decide together, and the question that results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from handraise.model.durations import WorkingSpan
from handraise.model.errors import InvalidPolicy
from handraise.model.forms import Approval, form_from_json
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy
from handraise.model.problems import Problem
from handraise.model.questions import Draft, definition_part, redrafted
from handraise.model.rulings import POLICY, Ending, Match, Ruling
from handraise.model.timelines import Deed, Step
from handraise.model.validation import check_answer
from handraise.policies.expressions import (
    VARIABLES,
    Expressions,
    InvalidExpression,
    check_expression,
    required_name,
)
from handraise.policies.requirements import Requirements, together
from handraise.policies.rules import Policy, Rule, parse_policy

T = TypeVar("T", bound=Draft)

_MOST_VERDICTS = 1_000
_RECURRING = frozenset({"agent", "tool", "risk", "kind", "recipients", "hour", "weekday"})
"""Facts that many questions have in common."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy decides about a question.

    `ruling` has all rules that matched, also those that only observe. At most one of `deny`, `required` and `allow` is
    set: `deny` wins over everything, and `allow` counts only if nothing is required.
    """

    ruling: Ruling
    deny: Rule | None = None
    required: Requirements | None = None
    allow: Rule | None = None
    _changes: dict[tuple[Any, ...], tuple[dict[str, Any], Ruling]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def changes_of(self, draft: Draft) -> tuple[dict[str, Any], Ruling]:
        """The fields of a question that the requirements change, and the ruling, which says what was asked for instead.

        An agent mostly asks the same people in the same way, so this is kept. For an action or a timeline it is not: each
        is another one.
        """
        if self.required is None:
            return {}, self.ruling
        key = (draft.recipients, draft.quorum, draft.veto)
        is_kept = not draft.steps and not isinstance(draft.form, Approval)
        if is_kept and (known := self._changes.get(key)) is not None:
            return known
        changes = self.required.changes(draft)
        asked = _asked(draft, changes)
        found = changes, replace(self.ruling, asked=asked) if asked else self.ruling
        if is_kept and len(self._changes) < _MOST_VERDICTS:
            self._changes[key] = found
        return found


class _Selection(NamedTuple):
    """Some rules of a policy, their expressions in the same order, and the verdicts by what these gave.

    If the rules use only facts that many questions have in common, `recurring` has the verdicts by these facts.
    """

    rules: Sequence[Rule]
    expressions: Expressions
    verdicts: dict[tuple[bool | None, ...], Verdict]
    recurring: dict[tuple[Any, ...], Verdict] | None


class CompiledPolicy:
    """A policy that is ready to be applied; make it once for each version."""

    def __init__(self, policy: Policy, *, version: int = 0, suspended: Collection[str] = ()) -> None:
        """`suspended` are the digests of rules that allow nothing. Raises `InvalidPolicy` for a bad expression."""
        if problems := list(_expression_problems((rule.name, rule.when) for rule in policy.rules)):
            raise InvalidPolicy(problems)
        self.policy = policy
        self.version = version
        self.suspended = frozenset(suspended)
        self._zone = ZoneInfo(policy.time_zone)
        self._indexed = [(rule, required_name(rule.when)) for rule in policy.rules]
        self._named = {name for _, name in self._indexed if name is not None}
        self._selections: dict[tuple[str | None, str | None, bool], _Selection] = {}

    def facts(self, draft: Draft, now: datetime, names: Collection[str] = VARIABLES) -> dict[str, Any]:
        """What the expressions of rules can use, or only these of it."""
        facts = _Facts(draft, now.astimezone(self._zone))
        return {name: getattr(facts, name) for name in names}

    def may_take_long(self, draft: Draft) -> bool:
        """Whether a decision about this question waits for another process, so that an event loop must not make it."""
        return self._selection(draft).expressions.may_take_long

    def decide(self, draft: Draft, now: datetime) -> Verdict:
        """What the policy decides about a question that is posted now.

        A rule whose expression fails matches if it denies or requires, and does not match if it allows.
        """
        selection = self._selection(draft)
        facts = self.facts(draft, now, selection.expressions.variables)
        if selection.recurring is None:
            return self._evaluated(selection, facts)
        key = tuple([tuple(fact) if isinstance(fact, list) else fact for fact in facts.values()])
        verdict = selection.recurring.get(key)
        if verdict is None:
            verdict = self._evaluated(selection, facts)
            if len(selection.recurring) < _MOST_VERDICTS:
                selection.recurring[key] = verdict
        return verdict

    def _evaluated(self, selection: _Selection, facts: Mapping[str, Any]) -> Verdict:
        results = tuple(selection.expressions.evaluate(facts))
        verdict = selection.verdicts.get(results)
        if verdict is None:
            verdict = self._verdict(selection.rules, results)
            if len(selection.verdicts) < _MOST_VERDICTS:
                selection.verdicts[results] = verdict
        return verdict

    def _selection(self, draft: Draft) -> _Selection:
        """The rules that can match a question about its tool, of its agent.

        Only an approval can be allowed, and one of high risk only if the operator says so.
        """
        tool, agent = _tool(draft), draft.asker
        may_allow = isinstance(draft.form, Approval) and (
            draft.form.risk != "high" or self.policy.allow_high_risk
        )
        key = (
            tool if ("tool", tool) in self._named else None,
            agent if ("agent", agent) in self._named else None,
            may_allow,
        )
        if key not in self._selections:
            known = {None, ("tool", tool), ("agent", agent)}
            rules = [
                rule
                for rule, name in self._indexed
                if name in known and (may_allow or rule.effect != "allow")
            ]
            expressions = Expressions([rule.when for rule in rules])
            recurring: dict[tuple[Any, ...], Verdict] | None = (
                {} if expressions.variables <= _RECURRING else None
            )
            self._selections[key] = _Selection(rules, expressions, {}, recurring)
        return self._selections[key]

    def _verdict(self, rules: Sequence[Rule], results: Sequence[bool | None]) -> Verdict:
        matched = [
            (rule, Match(rule=rule.name, effect=rule.effect, mode=rule.mode, failed=result is None))
            for rule, result in zip(rules, results, strict=True)
            if result or (result is None and rule.effect != "allow")
        ]
        ruling = Ruling(
            version=self.version,
            matches=tuple(match for _, match in matched),
            close_orphans=self.policy.close_orphans,
        )
        enforced = [rule for rule, _ in matched if rule.mode == "enforce"]
        denying = next((rule for rule in enforced if rule.effect == "deny"), None)
        if denying is not None:
            return Verdict(ruling, deny=denying)
        requires = [rule.then.require for rule in enforced if rule.then.require is not None]
        if requires:
            required = together(requires)
            return Verdict(replace(ruling, names_people=required.replaces), required=required)
        allowing = (rule for rule in enforced if rule.effect == "allow" and rule.digest not in self.suspended)
        return Verdict(ruling, allow=next(allowing, None))

    def allowing(self, ruling: Ruling) -> Rule | None:
        """The rule that allows a question with this ruling while few of its spot checks wait; None if no count matters."""
        if ruling.ending is None:
            return None
        rules = (rule for rule in self.policy.rules if rule.digest == ruling.ending.rule)
        return next((rule for rule in rules if rule.then.allow and rule.then.allow.check), None)

    def apply(self, draft: Draft, now: datetime, draw: Callable[[], float]) -> Draft:
        """The question as the policy changes it, with its ruling.

        `draw` gives a random number from 0 to 1. If it is below the `check` of the rule that allows, people are asked.
        """
        verdict = self.decide(draft, now)
        ruling = verdict.ruling
        if verdict.deny is not None:
            return redrafted(draft, ruling=replace(ruling, ending=_denied(draft, verdict.deny)))
        if verdict.allow is not None and verdict.allow.then.allow is not None:
            if draw() < verdict.allow.then.allow.check:
                return redrafted(draft, ruling=replace(ruling, checked=verdict.allow.digest))
            return redrafted(draft, ruling=replace(ruling, ending=_allowed(draft, verdict.allow)))
        changes, ruling = verdict.changes_of(draft)
        return redrafted(draft, **changes, ruling=ruling)


class _Facts:
    """What is known about a question that is posted, by the names that expressions use."""

    def __init__(self, draft: Draft, now: datetime) -> None:
        self._draft = draft
        self.now = now
        self.agent = draft.asker
        self.kind = draft.form.kind
        self.conversation = draft.conversation or ""
        self.topic = draft.topic or ""
        self.risk = draft.risk or ""

    @property
    def tool(self) -> str:
        return _tool(self._draft)

    @property
    def args(self) -> dict[str, Any]:
        form = self._draft.form
        return form.action.arguments if isinstance(form, Approval) else {}

    @property
    def recipients(self) -> list[str]:
        return list(self._draft.recipients)

    @property
    def hour(self) -> int:
        return self.now.hour

    @property
    def weekday(self) -> str:
        return _WEEKDAYS[self.now.weekday()]


def _tool(draft: Draft) -> str:
    return draft.form.action.tool if isinstance(draft.form, Approval) else ""


def compile_version(current: CurrentPolicy) -> CompiledPolicy:
    """The stored policy of a workspace, ready to be applied."""
    version = current.version
    suspended = {each.rule for each in current.suspensions}
    return CompiledPolicy(parse_policy(version.document), version=version.version, suspended=suspended)


def as_asked(question: T) -> T:
    """The question as its asker asked it, before a policy changed it."""
    if question.ruling is None:
        return question
    original: dict[str, Any] = {"needs": (), "evidence": None, "ruling": None}
    for name, value in question.ruling.asked.items():
        match name:
            case "form":
                original[name] = form_from_json(value)
            case "recipients":
                original[name] = tuple(value)
            case "steps":
                original[name] = tuple(
                    _step_from(after, do, tuple(to), record) for after, do, *to, record in value
                )
            case _:
                original[name] = value
    return redrafted(question, **original)


def _step_from(after: float | str, do: Deed, to: tuple[str, ...], record: dict[str, Json] | None) -> Step:
    if isinstance(after, str):
        return Step(timedelta(seconds=WorkingSpan(after).total_seconds()), do, to, record, after)
    return Step(timedelta(seconds=after), do, to, record)


def compile_document(document: Any) -> CompiledPolicy:
    """The policy of a document that somebody wrote, or `InvalidPolicy` with every problem, also of expressions."""
    try:
        policy = parse_policy(document)
    except InvalidPolicy as error:
        written = document.get("rules") if isinstance(document, Mapping) else None
        rules = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
        texts = [(each.get("name"), each.get("when")) for each in rules]
        more = _expression_problems((name, when) for name, when in texts if isinstance(when, str) and when)
        raise InvalidPolicy([*error.problems, *more]) from None
    return CompiledPolicy(policy)


def _expression_problems(rules: Iterable[tuple[object, str]]) -> Iterator[Problem]:
    for name, when in rules:
        try:
            check_expression(when)
        except InvalidExpression as error:
            yield Problem(f"rule {name!r}: when", str(error))


def _denied(draft: Draft, rule: Rule) -> Ending:
    reason = "" if rule.then.deny is None else rule.then.deny.reason
    by = POLICY + rule.name
    if not isinstance(draft.form, Approval):
        return Ending("declined", {"by": by, "reason": reason, "source": "policy"}, rule.digest)
    value = check_answer(draft.form, {"decision": "deny", "reason": reason})
    return Ending("answered", {"value": value, "by": by, "source": "policy"}, rule.digest)


def _allowed(draft: Draft, rule: Rule) -> Ending:
    value = check_answer(draft.form, "approve")
    return Ending("answered", {"value": value, "by": POLICY + rule.name, "source": "policy"}, rule.digest)


def _asked(draft: Draft, changed: Collection[str]) -> dict[str, Json]:
    """What the asker had asked for, in the parts of the question's definition that the policy changes."""
    names = {"form", "recipients", "quorum", "veto", "steps"}.intersection(changed)
    return {name: definition_part(draft, name) for name in sorted(names)}
