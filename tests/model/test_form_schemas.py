from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from handraise import (
    Approval,
    Choice,
    Confirm,
    Field,
    Form,
    InvalidAnswer,
    InvalidQuestion,
    MultiChoice,
    Open,
    Option,
)
from handraise.forms import AnyForm, form_from_schema, form_to_schema
from handraise.model.answer_types import form_from
from handraise.model.drafting import Limits, compose
from handraise.model.validation import check_answer

RED_AND_BLUE = (Option(id="r", label="Red"), Option(id="b", label="Blue"))
TITLED = [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]

# What MCP elicitation allows, as its specification writes it.
MCP: dict[str, tuple[dict[str, Any], AnyForm]] = {
    "text": (
        {"type": "string", "minLength": 3, "maxLength": 50, "pattern": "^[A-Za-z]+$"},
        Open(min_length=3, max_length=50, pattern="^[A-Za-z]+$"),
    ),
    "text that may be empty": ({"type": "string", "minLength": 0}, Open(min_length=0)),
    "e-mail": ({"type": "string", "format": "email"}, Open(type="email")),
    "address": ({"type": "string", "format": "uri"}, Open(type="uri")),
    "date": ({"type": "string", "format": "date"}, Open(type="date")),
    "instant": ({"type": "string", "format": "date-time"}, Open(type="datetime")),
    "number": (
        {"type": "number", "minimum": 0.5, "maximum": 100},
        Open(type="number", minimum=0.5, maximum=100),
    ),
    "whole number": ({"type": "integer", "minimum": 0}, Open(type="integer", minimum=0)),
    "boolean": ({"type": "boolean"}, Confirm()),
    "choice": ({"type": "string", "enum": ["r", "b"]}, Choice.of("r", "b")),
    "titled choice": ({"type": "string", "oneOf": TITLED}, Choice(options=RED_AND_BLUE)),
    "choice with the old names": (
        {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"]},
        Choice(options=RED_AND_BLUE),
    ),
    "several of": (
        {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["r", "b"]}},
        MultiChoice.of("r", "b", at_most=2),
    ),
    "any number of": (
        {"type": "array", "items": {"type": "string", "enum": ["r", "b"]}},
        MultiChoice.of("r", "b", at_least=0),
    ),
    "titled several of": (
        {"type": "array", "minItems": 1, "maxItems": 2, "items": {"anyOf": TITLED}},
        MultiChoice(options=RED_AND_BLUE, at_most=2),
    ),
    "titled several of one": (
        {"type": "array", "minItems": 1, "items": {"anyOf": TITLED[:1]}},
        MultiChoice(options=RED_AND_BLUE[:1]),
    ),
}


def schema_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def refusals(schema: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidQuestion) as refused:
        form_from_schema(schema)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize("kind", MCP)
def test_every_kind_of_the_mcp_subset_becomes_a_field(kind: str) -> None:
    schema, form = MCP[kind]
    described = {**schema, "title": "A title", "description": "What it is", "default": "d"}
    assert form_from_schema(schema_of("a", a=described)) == Form(
        fields=(Field(name="a", form=form, title="A title", description="What it is", default="d"),)
    )
    assert form_from_schema(schema_of(a=schema)).fields[0].required is False


@pytest.mark.parametrize("kind", MCP)
def test_a_form_goes_to_json_schema_and_back_unchanged(kind: str) -> None:
    schema, _ = MCP[kind]
    form = form_from_schema(schema_of("a", a=schema, b={**schema, "title": "B", "default": False}))
    assert form_from_schema(form_to_schema(form)) == form


def test_all_kinds_together_go_to_json_schema_and_back_unchanged() -> None:
    form = form_from_schema(schema_of(*MCP, **{kind: schema for kind, (schema, _) in MCP.items()}))
    assert form_from_schema(form_to_schema(form)) == form
    assert [field.name for field in form.fields] == list(MCP)


def test_the_schema_of_an_approval_begins_with_the_frozen_arguments() -> None:
    for default in (None, 1_000_000):
        entry = Field(name="eur", form=Open(type="number"), default=default)
        schema = form_to_schema(Approval.of("pay", {"eur": 10}, editable=[entry]))
        assert schema["properties"]["arguments"]["properties"]["eur"]["default"] == 10


def test_the_schema_of_a_form_is_closed_and_names_what_is_required() -> None:
    form = Form(
        fields=(Field(name="a", form=Confirm(), title="A"), Field(name="b", form=Open(), required=False))
    )
    assert form_to_schema(form) == {
        "type": "object",
        "properties": {"a": {"type": "boolean", "title": "A"}, "b": {"type": "string", "minLength": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_the_schema_of_a_choice_lists_its_options_with_their_titles() -> None:
    assert form_to_schema(Choice(options=RED_AND_BLUE)) == {"type": "string", "oneOf": TITLED}
    assert form_to_schema(MultiChoice(options=RED_AND_BLUE, at_least=0, at_most=1)) == {
        "type": "array",
        "items": {"anyOf": TITLED},
        "minItems": 0,
        "maxItems": 1,
    }


def test_the_schema_of_an_approval_shows_only_what_may_be_edited() -> None:
    schema = form_to_schema(Approval.of("pay", {"amount": 10, "to": "ana"}, editable=["amount"]))
    assert schema["required"] == ["decision"]
    assert schema["properties"]["decision"] == {"type": "string", "enum": ["approve", "deny"]}
    assert schema["properties"]["arguments"]["properties"] == {"amount": {"type": "integer", "default": 10}}
    assert "arguments" not in form_to_schema(Approval.of("pay", {"amount": 10}))["properties"]


@pytest.mark.parametrize(
    ("bounds", "below", "above"),
    [
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, 0, 10),
        ({"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 9.5}, 0, 10),
        (
            {"type": "integer", "minimum": -5, "exclusiveMinimum": 0, "maximum": 9, "exclusiveMaximum": 99},
            0,
            10,
        ),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, 0, 10),
        ({"type": "number", "minimum": 0.25, "maximum": 9.75}, 0, 10),
    ],
    ids=["whole", "whole between fractions", "the narrower of two", "number", "inclusive"],
)
def test_bounds_are_kept_exclusive_or_not(bounds: dict[str, Any], below: int, above: int) -> None:
    form = form_from_schema(schema_of("n", n=bounds))
    assert check_answer(form, {"n": 1}) == {"n": 1}
    assert check_answer(form, {"n": 9}) == {"n": 9}
    for outside in (below, above):
        with pytest.raises(InvalidAnswer):
            check_answer(form, {"n": outside})


REFUSED: dict[str, Any] = {
    "a nested object": {"type": "object", "properties": {"b": {"type": "string"}}},
    "a list of texts": {"type": "array", "items": {"type": "string"}},
    "a list of lists": {"type": "array", "items": {"type": "array"}},
    "a list of anything": {"type": "array"},
    "a remote reference": {"$ref": "https://example.com/schema.json"},
    "a reference to a file": {"$ref": "other.json#/$defs/x"},
    "an unknown reference": {"$ref": "#/$defs/nowhere"},
    "a circular reference": {"$ref": "#/$defs/circle"},
    "references in a ring": {"$ref": "#/$defs/ring"},
    "a password": {"type": "string", "format": "password"},
    "a secret": {"type": "string", "writeOnly": True},
    "a secret number": {"type": "integer", "writeOnly": True},
    "a secret choice": {"type": "string", "enum": ["a"], "format": "password"},
    "a union": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "a union in a list": {"type": ["string", "integer"]},
    "a union of nothing": {"anyOf": []},
    "several schemas at once": {"allOf": [{"type": "string"}, {"type": "string"}]},
    "no type": {},
    "null": {"type": "null"},
    "an unknown type": {"type": "any"},
    "an unknown format": {"type": "string", "format": "uuid"},
    "choices that are numbers": {"type": "integer", "enum": [1, 2]},
    "titled choices without a const": {"type": "string", "oneOf": [{"title": "Red"}]},
    "fewer names than choices": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red"]},
    "more names than choices": {"type": "string", "enum": ["r"], "enumNames": ["Red", "Blue"]},
    "names that are no texts": {"type": "string", "enum": ["r"], "enumNames": [1]},
    "names that are no list": {"type": "string", "enum": ["r"], "enumNames": 1},
    "the old exclusive bound": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
    "a bound that is a text": {"type": "integer", "minimum": "low"},
    "a length that is a text": {"type": "string", "minLength": "short"},
    "a pattern that is a number": {"type": "string", "pattern": 1},
    "a format that is a list": {"type": "string", "format": ["email"]},
    "no schema": 3,
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_flat_or_not_right_is_refused_by_name(what: str) -> None:
    schema = schema_of(fine={"type": "string"}, bad=REFUSED[what]) | {
        "$defs": {
            "circle": {"$ref": "#/$defs/circle"},
            "ring": {"$ref": "#/$defs/gnir"},
            "gnir": {"anyOf": [{"$ref": "#/$defs/ring"}]},
        }
    }
    (problem,) = refusals(schema)
    assert problem.startswith("form.bad")


def test_every_property_that_is_not_flat_is_named() -> None:
    problems = refusals(schema_of(a={"type": "object"}, b={"type": "string"}, c={"type": "null"}))
    assert [problem.split(":")[0] for problem in problems] == ["form.a", "form.c"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": []},
        {"properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {1: {"type": "string"}}},
    ],
    ids=str,
)
def test_only_an_object_with_properties_is_a_form(schema: dict[str, Any]) -> None:
    assert refusals(schema)


@pytest.mark.parametrize("required", ["amount", 3, {"amount": True}, ["ammount"], [["amount"]], [3]], ids=str)
def test_a_required_list_that_names_no_property_is_refused(required: Any) -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer"}, "a": {"type": "string"}}}
    assert refusals({**schema, "required": required})[0].startswith("form")


def test_references_to_the_schemas_own_definitions_are_followed() -> None:
    color = {"type": "string", "enum": ["red", "blue"], "title": "Color", "description": "Any color"}
    form = form_from_schema(
        schema_of(
            "a",
            a={"$ref": "#/$defs/Color", "description": "Of the car"},
            b={"allOf": [{"$ref": "#/$defs/Color"}], "default": "red"},
            c={"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}]},
            d={"type": "array", "items": {"$ref": "#/$defs/Color"}},
        )
        | {"$defs": {"Color": color}}
    )
    assert [field.form for field in form.fields[:3]] == [Choice.of("red", "blue")] * 3
    assert form.fields[3].form == MultiChoice.of("red", "blue", at_least=0)
    assert form.fields[0].description == "Of the car"
    assert form.fields[1].default == "red"


def test_null_beside_a_type_makes_a_required_field_optional() -> None:
    form = form_from_schema(
        schema_of(
            "a",
            "b",
            a={"anyOf": [{"type": "integer"}, {"type": "null"}]},
            b={"anyOf": [*TITLED, {"type": "null"}]},
        )
    )
    assert [field.required for field in form.fields] == [False, False]
    assert form.fields[1].form == Choice(options=RED_AND_BLUE)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Order(pydantic.BaseModel):
    count: int = pydantic.Field(ge=1, lt=10, title="How many", description="Between one and nine")
    price: Annotated[float, pydantic.Field(gt=0)]
    code: Annotated[str, pydantic.Field(pattern=r"^\d{5}$", max_length=5)]
    color: Color = Color.RED
    extras: list[Literal["bag", "card"]] = []
    express: bool
    due: date
    at: datetime | None = None
    home: pydantic.AnyUrl | None = None


@dataclass(frozen=True)
class Shipping:
    days: int
    color: Color = Color.BLUE
    note: str | None = None


def test_a_pydantic_model_becomes_a_form() -> None:
    form = form_from(Order)
    assert isinstance(form, Form)
    by_name = {field.name: field for field in form.fields}
    assert {name for name, field in by_name.items() if field.required} == {
        "count",
        "price",
        "code",
        "express",
        "due",
    }
    assert by_name["count"] == Field(
        name="count",
        form=Open(type="integer", minimum=1, maximum=9),
        title="How many",
        description="Between one and nine",
    )
    assert by_name["code"].form == Open(pattern=r"^\d{5}$", max_length=5)
    assert (by_name["color"].form, by_name["color"].default) == (Choice.of("red", "blue"), "red")
    assert by_name["extras"].form == MultiChoice.of("bag", "card", at_least=0)
    assert by_name["express"].form == Confirm()
    assert by_name["due"].form == Open(type="date")
    assert by_name["at"].form == Open(type="datetime")
    assert form_from_schema(form_to_schema(form)) == form


def test_a_dataclass_becomes_a_form() -> None:
    form = form_from(Shipping)
    assert isinstance(form, Form)
    assert [(field.name, field.form, field.required) for field in form.fields] == [
        ("days", Open(type="integer"), True),
        ("color", Choice.of("red", "blue"), False),
        ("note", Open(), False),
    ]


class Nested(pydantic.BaseModel):
    shipping: Shipping


class Endless(pydantic.BaseModel):
    more: list[Endless]


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


class Either(pydantic.BaseModel):
    size: int | str


@pytest.mark.parametrize("model", [Nested, Endless, Login, Either])
def test_a_model_that_no_flat_form_can_show_is_refused(model: type[pydantic.BaseModel]) -> None:
    with pytest.raises(InvalidQuestion):
        form_from(model)


def test_the_bounds_of_a_64_bit_integer_can_be_asked() -> None:
    whole = {"type": "integer", "minimum": -(2**63), "exclusiveMaximum": 2**63}
    form = form_from_schema({"type": "object", "properties": {"n": whole}})
    asked = compose("How many?", {"form": form}, new_id="q", workspace="w", asker="agent", limits=Limits())
    assert asked.form == form
