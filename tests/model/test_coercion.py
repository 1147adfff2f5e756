from __future__ import annotations

import json
from typing import Any

import pytest

from handraise import Option
from handraise.forms import coerce_choices


def labels(raw: Any) -> list[str]:
    return [option.label for option in coerce_choices(raw)]


def test_plain_texts_become_options_with_themselves_as_ids() -> None:
    assert coerce_choices([" Blue-green ", "Canary"]) == (
        Option(id="Blue-green", label="Blue-green"),
        Option(id="Canary", label="Canary"),
    )


@pytest.mark.parametrize(
    ("keys", "label"),
    [
        (("label", "description", "text", "title"), "label"),
        (("description", "text", "title"), "description"),
        (("text", "title"), "text"),
        (("title",), "title"),
    ],
)
def test_a_dicts_label_is_the_first_of_the_documented_keys(keys: tuple[str, ...], label: str) -> None:
    assert labels([{key: key for key in reversed(keys)}]) == [label]


@pytest.mark.parametrize("nothing", ["", "  ", None, [], {}, True])
def test_a_key_without_a_text_is_passed_over(nothing: Any) -> None:
    assert labels([{"label": nothing, "description": nothing, "text": "Canary"}]) == ["Canary"]


@pytest.mark.parametrize("key", ["name", "value", "id", "key", "Label"])
def test_what_is_not_a_label_is_never_shown_as_one(key: str) -> None:
    assert coerce_choices([{key: "canary_v2"}]) == ()
    assert labels([{key: "canary_v2", "title": "Canary"}]) == ["Canary"]


def test_a_dicts_id_and_description_are_kept() -> None:
    assert coerce_choices([{"id": " can ", "label": "Canary", "description": "A few first"}]) == (
        Option(id="can", label="Canary", description="A few first"),
    )


def test_a_description_that_became_the_label_is_not_said_twice() -> None:
    assert coerce_choices([{"description": "A few first"}]) == (
        Option(id="A few first", label="A few first"),
    )


@pytest.mark.parametrize(
    "raw",
    [
        ["a", "b"],
        ("a", "b"),
        '["a", "b"]',
        ' [{"label": "a"}, {"text": "b"}]',
        ['{"label": "a"}', '{"title": "b"}'],
        {"choices": ["a", "b"]},
        {"options": ["a", {"label": "b"}]},
        '{"choices": ["a", "b"]}',
    ],
)
def test_the_same_choices_are_found_in_every_wrapping(raw: Any) -> None:
    assert labels(raw) == ["a", "b"]


@pytest.mark.parametrize("text", ["[not json", "{a: b}", "[1, 2", "[draft] Canary", "{}x"])
def test_a_text_that_only_looks_like_json_is_a_text(text: str) -> None:
    assert labels([text]) == [text]


def test_blanks_are_dropped() -> None:
    assert labels(["", "a", "  ", None, "\n", {}, [], {"label": " "}, "b"]) == ["a", "b"]


def test_choices_that_read_alike_become_the_first_of_them() -> None:
    raw = [{"id": "x", "label": "Blue green"}, "blue  GREEN", "Canary", "canary "]
    assert coerce_choices(raw) == (Option(id="x", label="Blue green"), Option(id="Canary", label="Canary"))


def test_nothing_is_cut_off() -> None:
    many = [f"option {n}" for n in range(1_000)]
    assert labels(many) == many
    assert labels(json.dumps(many)) == many


def test_numbers_are_readable_labels() -> None:
    assert labels([1, 2.5, "3"]) == ["1", "2.5", "3"]


@pytest.mark.parametrize(
    "junk",
    [
        None,
        "",
        " ",
        [],
        (),
        {},
        True,
        [True, False],
        [None],
        [[]],
        [["a", "b"], ["c"]],
        {"name": "x"},
        ...,
        [...],
        b"a",
    ],
    ids=repr,
)
def test_junk_gives_no_options(junk: Any) -> None:
    assert coerce_choices(junk) == ()


@pytest.mark.parametrize("junk", [10**5_000, float("nan"), float("inf")], ids=["huge", "nan", "inf"])
def test_a_number_that_nobody_could_read_is_dropped(junk: float) -> None:
    assert labels(["a", junk, {"label": junk}]) == ["a"]


def test_json_that_is_nested_too_deeply_is_a_text_like_any_other() -> None:
    deep = "[" * 100_000
    assert labels([deep]) == [deep]


@pytest.mark.parametrize("label", ["[1]", "[]", "{}", '{"value": 7}', "[draft] new"])
def test_a_label_that_looks_like_json_is_kept(label: str) -> None:
    assert [option.label for option in coerce_choices([label, "other"])] == [label, "other"]
