"""The file with the configuration of a workspace: its model, and what is wrong with a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from handraise.model.errors import InvalidRequest, PermissionDenied
from handraise.model.identities import Role
from handraise.model.json_values import Json, json_problems
from handraise.model.people import ANYONE, GROUP, Responder, responder_of
from handraise.model.problems import Problem
from handraise.model.routing import Routing
from handraise.model.seals import Rule
from handraise.model.type_problems import type_problem
from handraise.model.working_hours import WorkingHours
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.policies.rules import Policy

MOST_BYTES = 5_000_000
"""The largest file."""
_DEEPEST = 16
_LONGEST_DAYS = 36_500

Name = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=200)]
Email = Annotated[str, pydantic.StringConstraints(max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")]
Recipient = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=206)]
ChannelName = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=60)]
AddressId = Annotated[str, pydantic.StringConstraints(min_length=1, max_length=300)]
T = TypeVar("T")
OrNothing = Annotated[T, pydantic.BeforeValidator(lambda given: {} if given is None else given)]
"""A mapping of which nothing is written after its name."""


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


class PersonConfig(_Part):
    """A person. What is not written has its default, whatever it was before; except `disabled`, which stays as it is.

    Name, address and `disabled` of somebody whom an identity provider provisions over SCIM are the provider's.
    """

    name: Name | None = pydantic.Field(
        default=None, description="what others read; the name in the file if not set"
    )
    email: Email | None = pydantic.Field(default=None, description="their e-mail address")
    role: Role = pydantic.Field(
        default=Role.MEMBER, description="`member`, or `admin` for an administrator of the workspace"
    )
    disabled: bool | None = pydantic.Field(
        default=None,
        description="`true` for somebody who can do nothing here any more, `false` to enable them again; stays as it is if not set",
    )


class RotaConfig(_Part):
    """The calendar that says who of a group is on duty: exactly one of these."""

    address: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=2_000)] | None = (
        pydantic.Field(
            default=None, description="the https address of an iCalendar file; `${NAME}` if secret"
        )
    )
    file: str | None = pydantic.Field(
        default=None, description="an iCalendar file beside this one; only the command reads it"
    )
    text: Annotated[str, pydantic.StringConstraints(min_length=1, max_length=1_000_000)] | None = (
        pydantic.Field(default=None, description="the text of an iCalendar file")
    )
    source: str | None = pydantic.Field(
        default=None,
        description="the host of the calendar that is followed already, or `file`: it stays as it is. An export writes this, "
        "because addresses may be secret",
    )

    @pydantic.model_validator(mode="after")
    def _one(self) -> RotaConfig:
        if sum(each is not None for each in (self.address, self.file, self.text, self.source)) != 1:
            raise ValueError("write exactly one of address, file, text and source")
        return self


class GroupConfig(_Part):
    """A group. What is not written is removed from it."""

    people: Annotated[tuple[Name, ...], pydantic.Field(max_length=10_000)] = pydantic.Field(
        default=(), description="all of its people"
    )
    hours: WorkingHours | None = pydantic.Field(default=None, description="when it works")
    rota: RotaConfig | None = pydantic.Field(
        default=None, description="the calendar that says who of it is on duty"
    )


class RetentionConfig(_Part):
    """How long settled questions are kept."""

    keep_settled_days: (
        Annotated[int | float, pydantic.Field(ge=0, le=_LONGEST_DAYS)] | Literal["forever"] | None
    ) = pydantic.Field(
        default=None,
        description="a number of days, or `forever`; the server's `HANDRAISE_KEEP_SETTLED_DAYS` if not set",
    )

    @property
    def rule(self) -> Rule | None:
        """The rule of the workspace."""
        match self.keep_settled_days:
            case None:
                return None
            case "forever":
                return Rule(None)
            case days:
                return Rule(timedelta(days=days))


class WorkspaceConfig(_Part):
    """The configuration of a workspace. A part that is not written stays as it is."""

    version: Literal[1] = pydantic.Field(default=1, description="the version of this format")
    people: OrNothing[dict[Name, OrNothing[PersonConfig]]] = pydantic.Field(
        default_factory=dict, description="everybody who answers or administers, by the names that agents use"
    )
    groups: OrNothing[dict[Name, OrNothing[GroupConfig]]] = pydantic.Field(
        default_factory=dict, description="groups of people, by their names without `group:`"
    )
    hours: WorkingHours | None = pydantic.Field(
        default=None, description="when everybody works who is in no group with hours of its own"
    )
    addresses: OrNothing[dict[Recipient, dict[ChannelName, dict[AddressId, Any]]]] = pydantic.Field(
        default_factory=dict,
        description="where recipients are reached: recipient, channel, id of the address, and what the channel needs; "
        "`${NAME}` for a secret. Null keeps what is stored. E-mail addresses of people are not listed",
    )
    routing: OrNothing[Routing] = pydantic.Field(
        default_factory=Routing, description="who is notified where and when"
    )
    policy: OrNothing[Policy] = pydantic.Field(
        default_factory=Policy, description="the rules that decide which questions need whom"
    )
    retention: OrNothing[RetentionConfig] = pydantic.Field(
        default_factory=RetentionConfig, description="how long settled questions are kept"
    )
    quotas: OrNothing[WorkspaceQuotas] = pydantic.Field(
        default_factory=WorkspaceQuotas, description="how many pending questions agents may have"
    )

    def manages(self, part: str) -> bool:
        """Whether the file has this part."""
        return part in self.model_fields_set

    def document(self) -> dict[str, Json]:
        """The configuration as a file has it, with the parts that it manages and without what is the default."""
        written: dict[str, Json] = self.model_dump(
            mode="json", exclude_unset=False, exclude_defaults=True, include=self.model_fields_set
        )
        found: dict[str, Json] = {}
        for part in type(self).model_fields:
            if part != "version" and self.manages(part):
                found[part] = written.get(part, None if part == "hours" else {})
        if self.manages("policy"):
            found["policy"] = self.policy.document()
        if self.manages("addresses"):
            found["addresses"] = self.model_dump(mode="json", include={"addresses"})["addresses"]
        return {"version": self.version, **found}


def parse_config(document: Any) -> WorkspaceConfig:
    """The configuration of a document, or `InvalidRequest` with every problem and where it is, such as `people.ann.email`.

    Whether the names in it exist is checked when changes are planned.
    """
    if not isinstance(document, Mapping):
        raise InvalidRequest([Problem("", "expected parts such as `people:` and `groups:`")])
    if problems := list(json_problems(dict(document), "", depth=_DEEPEST)):
        raise InvalidRequest([Problem(each.path.removeprefix("."), each.message) for each in problems])
    try:
        config = WorkspaceConfig.model_validate(document)
    except pydantic.ValidationError as error:
        raise InvalidRequest(list(_validation_problems(error))) from None
    if problems := list(_name_problems(config)):
        raise InvalidRequest(problems)
    return config


def config_schema() -> dict[str, Json]:
    """The JSON Schema of the file, for editors."""
    schema: dict[str, Json] = WorkspaceConfig.model_json_schema()
    title = {"title": "Configuration of a Handraise workspace"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, **title}


def _validation_problems(error: pydantic.ValidationError) -> Iterator[Problem]:
    schema = config_schema()
    for each in error.errors():
        # A union adds the name of each branch to the path, which nobody has written.
        place = tuple(part for part in each["loc"] if not _is_branch(part))
        yield Problem(".".join(map(str, place)), type_problem(each, schema, place))


def _is_branch(part: int | str) -> bool:
    return isinstance(part, str) and (part.startswith(("constrained-", "literal[")) or part == "float")


def _name_problems(config: WorkspaceConfig) -> Iterator[Problem]:
    for name in config.people:
        try:
            responder_of(Responder(name))
        except PermissionDenied as refusal:
            yield Problem(f"people.{name}", refusal.reason)
    for name in config.groups:
        if not name.strip() or "/" in name or name.startswith(GROUP):
            yield Problem(
                f"groups.{name}", "is not the name of a group: write it without 'group:' and without slashes"
            )
    for recipient in config.addresses:
        if recipient not in (ANYONE, GROUP) and recipient.strip():
            continue
        if recipient != ANYONE:
            yield Problem(f"addresses.{recipient}", "is not a person, 'group:NAME' or '*'")
