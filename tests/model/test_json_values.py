from __future__ import annotations

from typing import Any

import pytest

from handraise.model.json_values import canonical_json, digest, json_problems


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": [True, None, "ü"]}) == '{"a":[true,null,"ü"],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


def test_the_digest_is_the_sha_256_of_the_canonical_text() -> None:
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "ü", [], {}, {"a": [{"b": None}]}, (1, 2), 2**400])
def test_json_has_no_problems(value: Any) -> None:
    assert list(json_problems(value, "", depth=3)) == []


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "x"),
        (float("-inf"), "x"),
        ("a\x00b", "x"),
        ("\ud800", "x"),
        (b"bytes", "x"),
        ({"a": {"b": object()}}, "x.a.b"),
        ([1, {2, 3}], "x[1]"),
        ({1: "a"}, "x"),
        ({"\x00": 1}, "x"),
        ([[[[]]]], "x[0][0][0]"),
    ],
)
def test_what_no_store_could_keep_is_named_with_its_path(value: Any, path: str) -> None:
    assert [problem.path for problem in json_problems(value, "x", depth=3)] == [path]


def test_every_problem_is_told_not_only_the_first() -> None:
    assert len(list(json_problems([float("nan"), "\x00", object()], "", depth=3))) == 3


def test_a_number_too_large_to_be_written_down_is_a_problem() -> None:
    assert [problem.path for problem in json_problems([10**5_000], "x", depth=3)] == ["x[0]"]
