"""Make a form from the asker's own type, and convert the canonical answer back to that type."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

import pydantic

from handraise.model.decisions import decision_of
from handraise.model.errors import AnswerTypeMismatch
from handraise.model.forms import AnyForm, Approval, Choice, Confirm, File, Form, MultiChoice, Open, Option
from handraise.model.json_values import Json
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.schema_reader import Schema, form_from_schema, simple_form_from_schema
from handraise.model.type_problems import problems_of

T = TypeVar("T")

FormSource = AnyForm | type[Any] | Schema
"""What a form can be made from: a form, a Pydantic model, a dataclass, or a flat JSON Schema."""


@dataclasses.dataclass(frozen=True)
class Typed(Generic[T]):
    """A form made from a Python type, and how to get that type back."""

    form: AnyForm
    read: Callable[[Json], T]
    name: str

    def takes(self, value: Json) -> bool:
        """Whether the type can take this answer."""
        try:
            self.read(value)
        except AnswerTypeMismatch:
            return False
        return True


def form_from(source: FormSource) -> AnyForm:
    """Make the form from any of its sources."""
    if isinstance(source, dict):
        return form_from_schema(source)
    forms = (Choice, MultiChoice, Open, Confirm, File, Form, Approval)
    if isinstance(source, forms):
        return source
    if source in forms:
        raise InvalidQuestion([Problem("form", f"give a form, not its class: {source!r}")])
    if isinstance(source, type) or get_origin(source) is not None:
        return typed(source).form
    raise InvalidQuestion(
        [Problem("form", f"{type(source).__name__} is not a form, a type or a JSON Schema")]
    )


def typed(into: type[T]) -> Typed[T]:
    """Make the form that asks for a value of this type, and the conversion of its answer to that type.

    Takes str, int, float, bool, date, datetime, an Enum, a Literal of texts, a list or set of those two, a
    Pydantic model or a dataclass.
    """
    if _is_record(into):
        return _validated(into, form_from_schema(_schema_of(into)))
    inner = next(iter(get_args(into)), None)
    if get_origin(into) in (list, set, frozenset) and (options := _options_of(inner)) is not None:
        return _validated(into, MultiChoice(options=options), _members_of(inner))
    if (options := _options_of(into)) is not None:
        return _validated(into, Choice(options=options), _members_of(into))
    return _validated(into, simple_form_from_schema(_schema_of(into), "into"))


def unreadable(reading: Typed[Any], form: AnyForm) -> Problem | None:
    """What a form lets people answer although the asker's own type cannot take it."""
    match form:
        case Choice():
            samples: list[tuple[Json, str]] = [(option.id, repr(option.label)) for option in form.options]
        case MultiChoice():
            samples = [([option.id], repr(option.label)) for option in form.options]
        case Confirm():
            samples = [(True, "yes"), (False, "no")]
        case _:
            return None
    wrong = [name for value, name in samples if not reading.takes(value)]
    if not wrong:
        return None
    shown = ", ".join(wrong[:_SHOWN_OPTIONS]) + (", …" if len(wrong) > _SHOWN_OPTIONS else "")
    return Problem("into", f"{reading.name} cannot take the answer {shown}: give a type that fits the form")


_SHOWN_OPTIONS = 5


def python_value(form: AnyForm, value: Json) -> Any:
    """What `ask` returns without `into`: the canonical value, or a `Decision` about an action."""
    return decision_of(form, value) if isinstance(form, Approval) else value


def _is_record(into: Any) -> bool:
    return isinstance(into, type) and (issubclass(into, pydantic.BaseModel) or dataclasses.is_dataclass(into))


def _validated(into: Any, form: AnyForm, members: Mapping[str, Enum] = MappingProxyType({})) -> Typed[Any]:
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(into)

    def read(value: Json) -> Any:
        try:
            if members:
                return adapter.validate_python(_to_members(value, members))
            # Validated as JSON: a strict type then takes a date or a set as an answer gives it.
            return adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            raise AnswerTypeMismatch(problems_of(error, show_values=False)) from error

    return Typed(form, read, getattr(into, "__name__", str(into)))


def _schema_of(into: Any) -> Schema:
    try:
        return pydantic.TypeAdapter(into).json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise InvalidQuestion([Problem("into", f"{into!r} cannot be asked for: {error.message}")]) from error


def _options_of(into: Any) -> tuple[Option, ...] | None:
    """One option for each member of an Enum or a Literal. A member's id is its value if that is a text."""
    if isinstance(into, type) and issubclass(into, Enum):
        return tuple(Option(id=_member_id(member), label=_member_id(member)) for member in into)
    if get_origin(into) is Literal and all(isinstance(value, str) for value in get_args(into)):
        return tuple(Option(id=value, label=value) for value in get_args(into))
    return None


def _members_of(into: Any) -> dict[str, Enum]:
    if isinstance(into, type) and issubclass(into, Enum):
        return {_member_id(member): member for member in into}
    return {}


def _member_id(member: Enum) -> str:
    return member.value if isinstance(member.value, str) else member.name


def _to_members(value: Json, members: Mapping[str, Enum]) -> Any:
    if isinstance(value, str):
        return members.get(value, value)
    if isinstance(value, list):
        return [_to_members(item, members) for item in value]
    return value
