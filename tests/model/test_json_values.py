from __future__ import annotations

import json
import math
import random
import shutil
import struct
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval, InvalidQuestion
from handraise.model.json_values import MAX_INTEGER, canonical_json, digest, json_problems, not_json


def test_canonical_text_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": [True, None, "ü"]}) == '{"a":[true,null,"ü"],"b":1}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


def test_the_digest_is_the_sha_256_of_the_canonical_text() -> None:
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("number", "text"),  # the examples of RFC 8785, appendix B
    [
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (1e21, "1e+21"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.33333329, "333333333.3333333"),
        (-0.0000033333333333333333, "-0.0000033333333333333333"),
        (1424953923781206.2, "1424953923781206.2"),
        (100.0, "100"),
        (10**22, "1e+22"),
        (MAX_INTEGER, "9007199254740991"),
    ],
)
def test_numbers_are_written_as_rfc_8785_says(number: float, text: str) -> None:
    assert canonical_json(number) == text


def test_keys_are_in_the_order_of_their_utf_16_code_units() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert list(json.loads(canonical_json(dict.fromkeys(keys)))) == [
        *("\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33")
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53 + 1, 10**400, {1, 2}, {1: 2}])
def test_what_has_no_canonical_text_gets_none(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical_json(value)


@pytest.mark.service
def test_node_computes_the_same_digests() -> None:
    node = shutil.which("node")
    assert node, "node is not installed: this test compares our digests with those of another language"
    chance = random.Random(8785)
    values = [_drawn(chance, depth=3) for _ in range(2_000)]
    lines = "".join(f"{json.dumps(each)}\n" for each in values)
    program = Path(__file__).with_name("canonical.mjs")
    told = subprocess.run(
        [node, program], input=lines, capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.splitlines() == [digest(each) for each in values]


def _drawn(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(8 if depth else 6)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind == 1:
        return chance.randint(-MAX_INTEGER, MAX_INTEGER)
    if kind == 2:  # any float there is
        (number,) = struct.unpack("d", chance.randbytes(8))
        return number if math.isfinite(number) else 0.5
    if kind == 3:  # floats that people write
        return chance.randrange(10**6) * 10.0 ** chance.randint(-12, 24)
    if kind in {4, 5}:
        return _text(chance)
    if kind == 6:
        return [_drawn(chance, depth - 1) for _ in range(chance.randrange(5))]
    return {_text(chance): _drawn(chance, depth - 1) for _ in range(chance.randrange(6))}


def _text(chance: random.Random) -> str:
    ranges = [(0, 0x7F), (0x20, 0x7E), (0x80, 0x2FFF), (0xE000, 0xFFFF), (0x1F600, 0x1F64F)]
    return "".join(chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randrange(6)))


def test_an_action_keeps_a_float_as_it_was_given() -> None:
    given, other = Approval.of("pay", {"amount": 100.0}), Approval.of("pay", {"amount": 100})
    assert isinstance(given.action.arguments["amount"], float)
    assert given.digest == other.digest


@pytest.mark.parametrize("number", [2**53, -(2**60), math.nan])
def test_a_number_that_others_cannot_read_is_refused_when_asked_and_told_to_be_a_text(number: float) -> None:
    with pytest.raises(InvalidQuestion, match="write it as text"):
        Approval.of("delete", {"id": number})


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5, "ü", [], {}, {"a": [{"b": None}]}, (1, 2), 2**53 - 1, 1e300]
)
def test_json_has_no_problems(value: Any) -> None:
    assert list(json_problems(value, "", depth=3)) == []


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "x"),
        (float("-inf"), "x"),
        (2**53, "x"),
        ({"a": [1, -(2**63)]}, "x.a[1]"),
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


@pytest.mark.parametrize("number", [1e23, -1e23, 1.5e22, 9007199254740994.0, 1.7976931348623157e308, 2.0**70])
def test_a_large_number_has_one_canonical_text_also_as_postgresql_returns_it(number: float) -> None:
    """PostgreSQL keeps the digits that were written, and returns 1e23 as a one and 23 zeros."""
    returned = int(Decimal(repr(number)))
    assert canonical_json(returned) == canonical_json(number)
    assert canonical_json(int(number)) == canonical_json(number)


@pytest.mark.parametrize("number", [2**53 + 1, 10**23 + 1, 10**400])
def test_a_whole_number_that_no_float_is_has_no_canonical_text(number: int) -> None:
    with pytest.raises(ValueError, match="2\\^53"):
        canonical_json(number)


class Risk(Enum):
    """A type of a program."""

    HIGH = "high"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime.now(UTC), "datetime is not JSON: write its isoformat()"),
        ({1}, "set is not JSON: write it as a list"),
        (Decimal(1), "Decimal is not JSON: write str(…) of it"),
        (Risk.HIGH, "Risk is not JSON: write its value"),
        (object(), "object is not JSON"),
    ],
)
def test_a_value_that_is_no_json_says_how_to_write_it(value: object, said: str) -> None:
    assert not_json(value) == said
