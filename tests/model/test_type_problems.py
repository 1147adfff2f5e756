"""What somebody reads who wrote a field that does not exist, or a value that does not fit."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from handraise.model.forms import Approval
from handraise.model.type_problems import problems_of, unknown_field, written_place
from handraise.wire.requests import PostQuestion


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["choises"], "there is no such field; did you mean 'choices'?"),
        (["colour"], "there is no such field"),
        (["timeline", "expires"], "there is no such field; did you mean 'expire'?"),
        (["form", "any_form", "open", "typ"], "there is no such field; did you mean 'type'?"),
        (["form", "any_form", "choice", "option"], "there is no such field; did you mean 'options'?"),
        (["nowhere", "at", "all"], "there is no such field"),
    ],
)
def test_the_field_that_was_probably_meant_is_named(place: list[str], said: str) -> None:
    assert unknown_field(PostQuestion.model_json_schema(), place) == said


@pytest.mark.parametrize(
    ("place", "written"),
    [
        (["form", "any_form", "open", "typ"], "form.typ"),
        (["form", "any_form", "form", "fields", 0, "form", "open", "typ"], "form.fields.0.form.typ"),
        (["timeline", "expires"], "timeline.expires"),
        (["prompt"], "prompt"),
        (["nowhere", "at"], "nowhere.at"),
    ],
)
def test_a_place_is_named_as_it_was_written(place: list[int | str], written: str) -> None:
    assert ".".join(map(str, written_place(PostQuestion.model_json_schema(), place))) == written


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ["action: is required", "digest: is required"]),
        ({"risk": "hihg"}, ["risk: expected 'low', 'medium' or 'high', got 'hihg'; did you mean 'high'?"]),
        ({"risk": "x" * 100}, ["risk: expected 'low', 'medium' or 'high'"]),
        ({"brief": "because"}, ["brief: expected a Brief, or a dictionary with its fields, got str"]),
        ({"brief": {"whi": "x"}}, ["brief.whi: there is no such field; did you mean 'why'?"]),
        (
            {"remember_for": "long"},
            ["remember_for: expected a valid number, unable to parse string as a number"],
        ),
        ({"editable": 1}, ["editable: expected a valid tuple"]),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(given: dict[str, Any], said: list[str]) -> None:
    whole = {"action": {"tool": "pay", "arguments": {}}, "digest": "0", **given} if given else {}
    with pytest.raises(pydantic.ValidationError) as wrong:
        Approval.model_validate(whole)
    assert list(map(str, problems_of(wrong.value, Approval))) == said


def test_a_value_may_be_kept_out_of_the_sentence() -> None:
    with pytest.raises(pydantic.ValidationError) as wrong:
        Approval.model_validate({"action": {"tool": "pay", "arguments": {}}, "digest": "0", "risk": "hihg"})
    assert problems_of(wrong.value, show_values=False)[0].message == "expected 'low', 'medium' or 'high'"
