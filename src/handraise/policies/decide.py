"""Apply a policy to a question: which rules match, what they decide together, and the question that results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from handraise.model.errors import InvalidPolicy
from handraise.model.forms import Approval, Risk, Scope, form_from_json
from handraise.model.json_values import Json
from handraise.model.policy_versions import CurrentPolicy
from handraise.model.problems import Problem
from handraise.model.questions import Draft, Need, RequiredEvidence, redrafted
from handraise.model.rulings import POLICY, Ending, Match, Ruling
from handraise.model.timelines import Step
from handraise.model.validation import check_answer
from handraise.policies.expressions import Expressions, InvalidExpression, check_expression
from handraise.policies.rules import GrantLimit, Policy, Require, Rule, parse_policy

T = TypeVar("T", bound=Draft)

_RISKS: tuple[Risk, ...] = ("low", "medium", "high")
_EVIDENCE: tuple[RequiredEvidence | None, ...] = (None, "session", "passkey")
_GRANTS: tuple[GrantLimit | None, ...] = (None, "always", "session", "none")
_SCOPES: Mapping[GrantLimit | None, frozenset[Scope]] = {
    None: frozenset({"once", "session", "always"}),
    "always": frozenset({"once", "session", "always"}),
    "session": frozenset({"once", "session"}),
    "none": frozenset({"once"}),
}
"""From the weakest to the strictest, for each field that is compared."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy decides about a question.

    `matches` are all rules that matched, also those that only observe. At most one of `deny`, `requires` and `allow` is
    set: `deny` wins over everything, and `allow` counts only if nothing is required.
    """

    matches: tuple[Match, ...] = ()
    deny: Rule | None = None
    requires: tuple[Require, ...] = ()
    allow: Rule | None = None


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
        self._expressions = Expressions([rule.when for rule in policy.rules])

    def facts(self, draft: Draft, now: datetime) -> dict[str, Any]:
        """What the expressions of rules can use."""
        form = draft.form
        local = now.astimezone(self._zone)
        asked = {} if draft.ruling is None else draft.ruling.asked
        return {
            "agent": draft.asker,
            "tool": form.action.tool if isinstance(form, Approval) else "",
            "args": form.action.arguments if isinstance(form, Approval) else {},
            "risk": draft.risk or "",
            "kind": form.kind,
            "recipients": list(asked.get("recipients", draft.recipients)),
            "conversation": draft.conversation or "",
            "topic": "",
            "hour": local.hour,
            "weekday": _WEEKDAYS[local.weekday()],
            "now": now,
        }

    def decide(self, draft: Draft, now: datetime) -> Verdict:
        """What the policy decides about a question that is posted now.

        A rule whose expression fails matches if it denies or requires, and does not match if it allows.
        """
        results = self._expressions.evaluate(self.facts(draft, now))
        matched: list[tuple[Rule, Match]] = []
        for rule, result in zip(self.policy.rules, results, strict=True):
            failed = result is None
            if not (result or failed) or (failed and rule.effect == "allow"):
                continue
            if rule.effect == "allow" and not isinstance(draft.form, Approval):
                continue
            matched.append((rule, Match(rule=rule.name, effect=rule.effect, mode=rule.mode, failed=failed)))
        return self._together(matched)

    def _together(self, matched: Sequence[tuple[Rule, Match]]) -> Verdict:
        matches = tuple(match for _, match in matched)
        enforced = [rule for rule, _ in matched if rule.mode == "enforce"]
        denying = next((rule for rule in enforced if rule.effect == "deny"), None)
        if denying is not None:
            return Verdict(matches, deny=denying)
        requires = tuple(rule.then.require for rule in enforced if rule.then.require is not None)
        if requires:
            return Verdict(matches, requires=requires)
        allowing = (rule for rule in enforced if rule.effect == "allow" and rule.digest not in self.suspended)
        return Verdict(matches, allow=next(allowing, None))

    def apply(self, draft: Draft, now: datetime, draw: float) -> Draft:
        """The question as the policy changes it, with its ruling.

        `draw` is a random number from 0 to 1: if it is below the `check` of the rule that allows, people are asked.
        """
        verdict = self.decide(draft, now)
        ruling = Ruling(version=self.version, matches=verdict.matches)
        if verdict.deny is not None:
            return redrafted(draft, ruling=replace(ruling, ending=_denied(draft, verdict.deny)))
        if verdict.allow is not None and verdict.allow.then.allow is not None:
            if draw < verdict.allow.then.allow.check:
                return redrafted(draft, ruling=replace(ruling, checked=verdict.allow.digest))
            return redrafted(draft, ruling=replace(ruling, ending=_allowed(draft, verdict.allow)))
        if not verdict.requires:
            return redrafted(draft, ruling=ruling)
        required = _required(draft, verdict.requires)
        changed = {name: value for name, value in required.items() if value != getattr(draft, name)}
        return redrafted(draft, **changed, ruling=replace(ruling, asked=_asked(draft, changed)))


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
                    Step(timedelta(seconds=after), do, tuple(to), record) for after, do, *to, record in value
                )
            case _:
                original[name] = value
    return redrafted(question, **original)


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


def _required(draft: Draft, requires: Sequence[Require]) -> dict[str, Any]:
    """The fields of the question that meets all of these requirements: the strictest value of each."""
    needs = tuple(dict.fromkeys(need for each in requires for need in _needs(each)))
    replaced = any(each.people or each.one_of_each or each.stages for each in requires)
    quorum = max(draft.quorum, *(_people_needed(each) for each in requires))
    values: dict[str, Any] = {
        "quorum": quorum,
        "veto": draft.veto or any(each.veto or bool(each.stages) for each in requires),
        "evidence": max((each.evidence for each in requires), key=_EVIDENCE.index),
    }
    if needs and not replaced and draft.recipients:  # the asker's own recipients must agree too
        escalated = (name for step in draft.steps for name in step.to)
        needs = (Need(tuple(dict.fromkeys((*draft.recipients, *escalated))), draft.quorum), *needs)
    if replaced or (needs and draft.recipients):
        named = (name for need in needs for name in need.people)
        names = tuple(dict.fromkeys((*(() if replaced else draft.recipients), *named)))
        values |= {"recipients": names, "steps": _only_to(draft.steps, names)}
        # With other people among the recipients, the quorum alone does not say that nobody counts for two groups.
        together = (need for each in requires for need in _together(each))
        needs += tuple(need for need in dict.fromkeys(together) if {*need.people} != {*names})
    # If everybody who may answer is in the only need, recipients and quorum say the same.
    values["needs"] = () if replaced and len(needs) == 1 else needs
    if isinstance(draft.form, Approval):
        values["form"] = _required_form(draft.form, requires, alone=quorum == 1 and not values["needs"])
    return values


def _needs(require: Require) -> Iterator[Need]:
    if require.people:
        yield Need(require.people, require.quorum)
    if require.also:
        yield Need(require.also)
    yield from (Need((name,)) for name in require.one_of_each)
    yield from (Need(names, 1, stage) for stage, names in enumerate(require.stages))


def _together(require: Require) -> Iterator[Need]:
    """How many people all groups or stages need together: at least as many as there are."""
    if require.one_of_each:
        yield Need(require.one_of_each, _people_needed(require))
    if require.stages:
        last = len(require.stages) - 1
        names = dict.fromkeys(name for stage in require.stages for name in stage)
        yield Need(tuple(names), _people_needed(require), last)


def _people_needed(require: Require) -> int:
    """How many people must agree, at least: as many as there are groups or stages, so that nobody counts twice."""
    return max(require.quorum, len(require.one_of_each), len(require.stages))


def _only_to(steps: Sequence[Step], names: Collection[str]) -> tuple[Step, ...]:
    """The timeline without escalations to people whom the policy does not name; those become reminders."""
    kept = []
    for step in steps:
        to = tuple(name for name in step.to if name in names)
        kept.append(
            replace(step, do="remind", to=()) if step.do == "escalate" and not to else replace(step, to=to)
        )
    return tuple(kept)


def _required_form(form: Approval, requires: Sequence[Require], *, alone: bool) -> Approval:
    risk = max((form.risk, *(each.risk for each in requires if each.risk)), key=_RISKS.index)
    limit = max((each.grants for each in requires), key=_GRANTS.index)
    scopes: tuple[Scope, ...] = tuple(scope for scope in form.scopes if scope in _SCOPES[limit])
    if risk == "high" or not alone:  # several people cannot remember an approval together
        scopes = ("once",)
    valid = [each for each in (form.valid_for, *(each.valid_for for each in requires)) if each is not None]
    return form.model_copy(
        update={
            "risk": risk,
            "scopes": scopes,
            "valid_for": min(valid, default=None),
            "editable": () if any(each.editable is False for each in requires) else form.editable,
        }
    )


def _asked(draft: Draft, changed: Collection[str]) -> dict[str, Json]:
    """What the asker had asked for, in the parts of the question's definition that the policy changes."""
    whole = draft.defined()
    names = {"form", "recipients", "quorum", "veto", "steps"}.intersection(changed)
    return {name: whole[name] for name in sorted(names)}
