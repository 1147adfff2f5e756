"""Forms: what a valid answer is. A discriminated union on `kind`.

The forms without an action are in `form_fields.py`; everything may import them from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from handraise.model.briefs import Brief, Link
from handraise.model.durations import Span, seconds_of
from handraise.model.form_fields import (
    Choice,
    Confirm,
    Field,
    File,
    Form,
    FormPart,
    MultiChoice,
    Open,
    OpenType,
    Option,
    SimpleForm,
    is_unset,
)
from handraise.model.json_values import Json, digest, json_problems
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.schema_reader import form_from_schema

__all__ = [
    "FORM",
    "Action",
    "AnyForm",
    "Approval",
    "Brief",
    "Choice",
    "Confirm",
    "Field",
    "File",
    "Form",
    "Link",
    "MultiChoice",
    "Open",
    "OpenType",
    "Option",
    "Risk",
    "Scope",
    "SimpleForm",
    "form_from_json",
    "form_to_json",
    "scope_problems",
    "takes_files",
]

T = TypeVar("T")


class Action(FormPart):
    """What is to be done: a tool and its arguments, frozen."""

    tool: str
    arguments: dict[str, Any]

    @property
    def digest(self) -> str:
        """The SHA-256 of the action's canonical JSON."""
        return digest({"tool": self.tool, "arguments": self.arguments})

    def into(self, model: type[T]) -> T:
        """The arguments as the type that they were made from, such as a Pydantic model: `action.into(Refund)`."""
        return pydantic.TypeAdapter(model).validate_python(self.arguments)


_DEEPEST = 64

Scope = Literal["once", "session", "always"]
"""How far an approval reaches."""

Risk = Literal["low", "medium", "high"]
"""How much harm an action could do, as declared by the agent's author."""


class Approval(FormPart):
    """Approve or deny a frozen action; the arguments named in `editable` may be changed while approving.

    `scopes` are how far an approval may reach: this action once, or again in the same conversation (session)
    or anywhere (always) for at most `remember_for` seconds. A remembered approval applies to an action of the
    same tool with the same arguments, or the same values of those in `remember_by`, asked of the same
    recipients.

    With `valid_for`, an approval must be used within this many seconds after it was given.

    `risk` is how much harm the action could do, as declared by the agent's author. An action of high risk
    must be approved every time, and only by a person whose identity is proven, not merely asserted by a
    program.

    `brief` is what the agent says about it, in its own words.
    """

    kind: Literal["approval"] = "approval"
    action: Action
    digest: str
    editable: tuple[Field, ...] = ()
    scopes: tuple[Scope, ...] = ("once",)
    remember_by: tuple[str, ...] | None = None
    remember_for: float = 30 * 86_400
    valid_for: float | None = None
    # Left out if not given, so that the stored text of older forms, which have no risk, stays the same.
    risk: Risk = pydantic.Field(default="medium", exclude_if=lambda risk: risk == "medium")
    brief: Brief | None = pydantic.Field(default=None, exclude_if=is_unset)

    @classmethod
    def of(
        cls,
        tool: str,
        arguments: Mapping[str, object] | pydantic.BaseModel | None = None,
        *,
        editable: Sequence[Field | str] = (),
        scopes: Sequence[Scope] = ("once",),
        remember_by: Sequence[str] | None = None,
        remember_for: Span = timedelta(days=30),
        valid_for: Span | None = None,
        risk: Risk = "medium",
        brief: Brief | None = None,
    ) -> Approval:
        """Freeze an action. An argument named in `editable` takes its form from its current value.

        `arguments` may be a Pydantic model: then editable arguments take their forms from the model, bounds included.
        """
        schema: Mapping[str, Json] = {}
        if isinstance(arguments, pydantic.BaseModel):
            schema = arguments.model_json_schema()
            arguments = arguments.model_dump(mode="json", by_alias=True)
        problems = list(_call_problems(tool, arguments, editable))
        problems += json_problems(arguments or {}, "arguments", depth=_DEEPEST)
        problems += scope_problems(scopes, risk, "scopes")
        if problems:
            raise InvalidQuestion(problems)
        # Through JSON and back: nobody keeps a reference to what is frozen.
        action = Action(tool=tool, arguments=json.loads(json.dumps(arguments or {}, sort_keys=True)))
        fields = tuple(
            name if isinstance(name, Field) else _editable(name, action.arguments.get(name, ""), schema)
            for name in editable
        )
        return cls(
            action=action,
            digest=action.digest,
            editable=fields,
            scopes=tuple(scopes),
            remember_by=None if remember_by is None else tuple(remember_by),
            remember_for=_seconds("remember_for", remember_for),
            valid_for=None if valid_for is None else _seconds("valid_for", valid_for),
            risk=risk,
            brief=brief,
        )

    @property
    def edits(self) -> tuple[Field, ...]:
        """The editable arguments as fields whose defaults are the frozen values: people see exactly the action."""
        arguments = self.action.arguments
        return tuple(
            entry.model_copy(update={"default": arguments.get(entry.name)}) for entry in self.editable
        )

    def grant_digest(self, action: Action, recipients: Sequence[str]) -> str:
        """What two questions must have in common for one remembered approval to apply to both.

        The recipients count: a decision of some people is not a decision of others.
        """
        names = action.arguments if self.remember_by is None else self.remember_by
        return digest(
            {
                "tool": action.tool,
                "arguments": {name: action.arguments.get(name) for name in names},
                "all": self.remember_by is None,
                "recipients": sorted(recipients),
            }
        )


AnyForm = Annotated[
    Choice | MultiChoice | Open | Confirm | File | Form | Approval, pydantic.Field(discriminator="kind")
]
"""A form of any of the seven kinds."""
FORM: pydantic.TypeAdapter[AnyForm] = pydantic.TypeAdapter(AnyForm)


_TEXTS: dict[int, tuple[AnyForm, str]] = {}
"""The stored texts of forms by their identities. A form in here is kept, so that no other one gets its identity."""
_MOST_TEXTS = 1_000
_LONGEST_TEXT = 2_000
_UNCHANGING = (Choice, MultiChoice, Open, Confirm)


def form_to_json(form: AnyForm) -> str:
    """The stored text of a form. It is kept if the form has no part that could change, as a dictionary could."""
    known = _TEXTS.get(id(form))
    if known is not None:
        return known[1]
    text = form.model_dump_json(exclude_defaults=False, exclude_none=True)
    if type(form) in _UNCHANGING and len(text) <= _LONGEST_TEXT:
        if len(_TEXTS) >= _MOST_TEXTS:
            _TEXTS.clear()
        _TEXTS[id(form)] = (form, text)
    return text


def form_from_json(text: str | bytes) -> AnyForm:
    """A form from its stored text."""
    return FORM.validate_json(text)


def takes_files(form: AnyForm) -> bool:
    """Whether an answer to this form has files."""
    if isinstance(form, Form):
        return any(isinstance(entry.form, File) for entry in form.fields)
    return isinstance(form, File)


def scope_problems(scopes: Sequence[Scope], risk: Risk, path: str) -> Iterator[Problem]:
    """Why an action of this risk cannot be approved that far."""
    if risk == "high" and set(scopes) - {"once"}:
        yield Problem(path, "an action of high risk must be approved every time, so only once is possible")


def _seconds(name: str, span: Span) -> float:
    try:
        return seconds_of(span)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidQuestion([Problem(name, str(error))]) from None


def _call_problems(tool: object, arguments: object, editable: object) -> Iterator[Problem]:
    """What is wrong with the types of the arguments to `Approval.of`."""
    if not isinstance(tool, str):
        name = getattr(tool, "__name__", "refund")
        yield Problem("tool", f"expected the name of a tool, got {type(tool).__name__}: write {name!r}")
    if arguments is not None and not isinstance(arguments, Mapping):
        given = type(arguments).__name__
        yield Problem("arguments", f"expected the arguments by name, such as {{'amount': 10}}, got {given}")
    if isinstance(editable, str):
        yield Problem("editable", f"expected a list of names: write editable=[{editable!r}]")
    elif not isinstance(editable, Iterable):
        yield Problem("editable", f"expected a list of names of arguments, got {type(editable).__name__}")


def _editable(name: str, value: Json, schema: Mapping[str, Json]) -> Field:
    """The field of an argument: from the schema of its model if a form can show that, else from its value."""
    if name in schema.get("properties", {}):
        part = {name: schema["properties"][name]}
        with suppress(InvalidQuestion):
            form = form_from_schema(
                {"type": "object", "properties": part, "required": [name], "$defs": schema.get("$defs", {})}
            )
            return form.fields[0].model_copy(update={"default": value})
    return _field_like(name, value)


def _field_like(name: str, value: Json) -> Field:
    form: Open | Confirm
    match value:
        case bool():
            form = Confirm()
        case int():
            form = Open(type="integer")
        case float():
            form = Open(type="number")
        case str():
            form = Open(min_length=0)
        case _:
            why = f"a {type(value).__name__} cannot be edited as one field; give a Field that says how"
            raise InvalidQuestion([Problem(f"editable.{name}", why)])
    return Field(name=name, form=form, default=value)
