"""The document of a policy: its rules, and what each of them does. See docs/reference/policies.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pydantic
from pydantic_core import CoreSchema

from handraise.model.durations import seconds_of
from handraise.model.errors import InvalidPolicy
from handraise.model.forms import Risk
from handraise.model.json_values import Json, digest, json_problems
from handraise.model.people import ANYONE, GROUP
from handraise.model.problems import Problem
from handraise.model.questions import RequiredEvidence
from handraise.model.rulings import POLICY, Effect, RuleMode
from handraise.model.type_problems import type_problem

MAX_RULES = 500
MAX_EXPRESSION = 2_000
"""How many rules a policy may have, and how many characters an expression."""
_MAX_NAME = 100
_MAX_REASON = 500
_MAX_PEOPLE = 20
_MAX_STAGES = 5
_MAX_GROUPS = 5
"""How many groups `one_of_each` names at most: any two or more of them are counted together."""
_DEEPEST = 10
_LONGEST = 3650 * 86_400.0

GrantLimit = Literal["none", "session", "always"]
"""How far an approval may be remembered at most."""


def _seconds(given: object) -> float:
    if not isinstance(given, (int, float, str)) or isinstance(given, bool):
        raise ValueError("expected a span such as '10m' or a number of seconds")  # noqa: TRY004 -- for Pydantic
    return seconds_of(given)


def _name(given: str) -> str:
    if given != given.strip() or not given.strip() or given.strip() == GROUP:
        raise ValueError("expected the name of a person, or of a group such as 'group:finance'")
    if given == ANYONE or given.startswith(POLICY):
        raise ValueError(f"{given!r} is nobody's name")
    return given


Name = Annotated[str, pydantic.StringConstraints(max_length=200), pydantic.AfterValidator(_name)]
Seconds = Annotated[
    float,
    pydantic.BeforeValidator(_seconds),
    pydantic.Field(gt=0, le=_LONGEST),
    pydantic.WithJsonSchema({"type": ["string", "number"], "examples": ["10m", "2h", 600]}),
]
Names = Annotated[tuple[Name, ...], pydantic.Field(max_length=_MAX_PEOPLE)]


class PolicyPart(pydantic.BaseModel):
    """A part of a policy. Unknown fields are refused, so a misspelt one is not ignored."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=False)


class Deny(PolicyPart):
    """The question is settled at once: an approval as denied, any other question as declined."""

    reason: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=_MAX_REASON)]


class Require(PolicyPart):
    """What a question needs before it counts as answered. Nothing here makes a question easier than its asker made it.

    `people` replace the recipients that the asker named. `also` keeps them, and one of these must agree in addition.
    `quorum` people must agree. `one_of_each`
    asks for somebody from each of these groups, and for at least as many people as there are groups. `stages` ask one
    group after another. With `veto`, one refusal ends it. `risk` is the least risk, `evidence` what proves who answers,
    `valid_for` how long an approval can be used, `grants` how far it may be remembered. With `editable` false, nobody
    may change the arguments.
    """

    people: Names | None = None
    also: Names = ()
    quorum: Annotated[int, pydantic.Field(ge=1, le=_MAX_PEOPLE)] = 1
    one_of_each: Annotated[tuple[Name, ...], pydantic.Field(max_length=_MAX_GROUPS)] = ()
    stages: Annotated[
        tuple[Annotated[Names, pydantic.Field(min_length=1)], ...], pydantic.Field(max_length=_MAX_STAGES)
    ] = ()
    veto: bool = False
    risk: Risk | None = None
    evidence: RequiredEvidence | None = None
    valid_for: Seconds | None = None
    grants: GrantLimit | None = None
    editable: Literal[False] | None = None

    @cached_property
    def named(self) -> tuple[str, ...]:
        """Everybody whom it names."""
        staged = (name for stage in self.stages for name in stage)
        return (*(self.people or ()), *self.also, *self.one_of_each, *staged)


class Allow(PolicyPart):
    """The action is approved at once. `check` is the share of such questions that still goes to people.

    While `outstanding` of these checks wait, all of its questions go to people.
    """

    check: Annotated[float, pydantic.Field(ge=0, le=1)] = 0.0
    outstanding: Annotated[int, pydantic.Field(ge=1, le=1_000)] = 10


class Then(PolicyPart):
    """What a rule does: exactly one of `deny`, `require` and `allow`."""

    deny: Deny | None = None
    require: Require | None = None
    allow: Allow | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: object) -> object:
        """`deny: a reason` and `allow` are short for `deny: {reason: a reason}` and `allow: {}`."""
        if given == "allow":
            return {"allow": {}}
        if isinstance(given, Mapping):
            given = dict(given)
            if isinstance(given.get("deny"), str):
                given["deny"] = {"reason": given["deny"]}
            if "allow" in given and given["allow"] in (None, True):
                given["allow"] = {}
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema with the short forms."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        parts = schema["properties"]
        parts["deny"] = {"anyOf": [*parts["deny"]["anyOf"], {"type": "string"}]}
        parts["allow"] = {"anyOf": [*parts["allow"]["anyOf"], {"const": True}]}
        return {"anyOf": [{"const": "allow"}, schema]}

    @pydantic.model_validator(mode="after")
    def _one(self) -> Then:
        if sum(each is not None for each in (self.deny, self.require, self.allow)) != 1:
            raise ValueError("write exactly one of deny, require and allow")
        return self


class Rule(PolicyPart):
    """When a rule matches, and what it does then. In mode `observe` it is only recorded."""

    name: Annotated[
        str, pydantic.StringConstraints(min_length=1, max_length=_MAX_NAME, strip_whitespace=True)
    ]
    when: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=MAX_EXPRESSION)] = "true"
    then: Then
    mode: RuleMode = "enforce"

    @property
    def effect(self) -> Effect:
        """What the rule does, in one word."""
        if self.then.deny is not None:
            return "deny"
        return "allow" if self.then.allow is not None else "require"

    @cached_property
    def digest(self) -> str:
        """What a suspension refers to: the rule as it is written, without its mode."""
        return digest(self.model_dump(mode="json", exclude={"mode"}, exclude_defaults=True))


class Policy(PolicyPart):
    """The rules of a workspace, and the time zone of `hour` and `weekday` in their expressions.

    With `close_orphans`, a question is withdrawn after nobody has waited for its answer for this long.
    Only with `allow_high_risk` can a rule allow an action of high risk without a person; only the operator can store that.
    """

    time_zone: str = "UTC"
    close_orphans: Seconds | None = None
    allow_high_risk: bool = False
    rules: Annotated[tuple[Rule, ...], pydantic.Field(max_length=MAX_RULES)] = ()

    @pydantic.field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name!r} is not a time zone: write one such as 'Europe/Berlin'") from None
        return name

    @property
    def allows(self) -> bool:
        """Whether a rule approves actions without a person."""
        return any(rule.effect == "allow" and rule.mode == "enforce" for rule in self.rules)

    def document(self) -> dict[str, Json]:
        """The policy as it is stored."""
        stored: dict[str, Json] = self.model_dump(mode="json", exclude_defaults=True)
        return {"time_zone": self.time_zone, "rules": [], **stored}


def parse_policy(document: Any) -> Policy:
    """The policy of a document, or `InvalidPolicy` with every problem. Expressions are checked by `compile_policy`."""
    if problems := list(json_problems(document, "policy", depth=_DEEPEST)):
        raise InvalidPolicy(problems)
    try:
        policy = Policy.model_validate(document)
    except pydantic.ValidationError as error:
        schema = Policy.model_json_schema()
        problems = [
            Problem(_path(document, each["loc"]), type_problem(each, schema)) for each in error.errors()
        ]
        raise InvalidPolicy(problems) from None
    if problems := list(_rule_problems(policy)):
        raise InvalidPolicy(problems)
    return policy


def named_recipients(policy: Policy) -> list[tuple[str, str]]:
    """Everybody whom the rules name, each with the path of what names them."""
    named = []
    for rule in policy.rules:
        if (require := rule.then.require) is not None:
            parts = {"people": require.people or (), "also": require.also, "one_of_each": require.one_of_each}
            parts |= {f"stages[{place}]": names for place, names in enumerate(require.stages)}
            path = f"rule {rule.name!r}: require"
            named += [
                (f"{path}.{part}[{place}]", name)
                for part, names in parts.items()
                for place, name in enumerate(names)
            ]
    return named


def _rule_problems(policy: Policy) -> Iterator[Problem]:
    names: set[str] = set()
    for rule in policy.rules:
        if rule.name in names:
            yield Problem(f"rule {rule.name!r}", "is the name of another rule already")
        names.add(rule.name)
        if rule.then.require is not None:
            yield from (
                Problem(f"rule {rule.name!r}: require.{each.path}", each.message)
                for each in _require_problems(rule.then.require)
            )


def _require_problems(require: Require) -> Iterator[Problem]:
    people, groups = require.people, [name for name in require.people or () if name.startswith(GROUP)]
    if people == ():
        yield Problem("people", "name at least one person or group, or leave it out")
    if people and not groups and len({*people}) < require.quorum:
        yield Problem("quorum", f"{require.quorum} people must agree, but only {len({*people})} are named")
    if len(require.one_of_each) == 1:
        yield Problem("one_of_each", "name at least two groups; for one group, write people")
    if any(not name.startswith(GROUP) for name in require.one_of_each):
        yield Problem("one_of_each", "name groups, such as 'group:finance'")
    if len({*require.one_of_each}) != len(require.one_of_each):
        yield Problem("one_of_each", "names a group twice")
    if len(require.stages) == 1:
        yield Problem("stages", "name at least two stages; for one, write people")
    given = [name for name in ("people", "one_of_each", "stages") if getattr(require, name)]
    if len(given) > 1:
        yield Problem(given[1], f"give {' or '.join(given)}, not both")
    if require.also and given:
        yield Problem(
            "also",
            f"the asker's recipients do not count here, because {given[0]} replaces them: add them there",
        )


def _path(document: Any, location: tuple[int | str, ...]) -> str:
    """Where a problem is. A rule is named instead of numbered, if it has a name."""
    match location:
        case ("rules", int(place), *rest):
            rules = document.get("rules")
            name = rules[place].get("name") if isinstance(rules[place], Mapping) else None
            which = f"rule {name!r}" if isinstance(name, str) else f"rules[{place}]"
            return ": ".join(filter(None, (which, ".".join(map(str, rest)))))
        case _:
            return ".".join(map(str, location))
