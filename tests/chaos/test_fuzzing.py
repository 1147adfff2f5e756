"""A short sample of `python -m chaos fuzzing`, the same every day; the full run is by command."""

from __future__ import annotations

import random
import time

import pytest

from chaos.fuzzing import PARSERS, Parser, Unanswered, changed, fuzz
from tests.tiers import sized

INPUTS = sized(gate=300, nightly=1_000)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_no_bytes_from_outside_are_more_than_refused(parser: Parser) -> None:
    for seed in parser.seeds:
        parser.parse(seed)
    assert fuzz(parser, inputs=INPUTS) == INPUTS


def test_what_a_parser_raises_is_told_with_its_input() -> None:
    def parse(data: bytes) -> None:
        if b"\x00" in data:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as found:
        fuzz(Parser("bad", parse, [b"seed"]), inputs=INPUTS)
    assert "bad, seed 0, input" in found.value.__notes__[0]


def test_a_parser_that_takes_its_time_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1_000_000, 3))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    with pytest.raises(Unanswered, match="slow, seed 0, input 0"):
        fuzz(Parser("slow", len, [b"seed"]), inputs=1)


def test_the_same_seed_makes_the_same_changes() -> None:
    made = [[changed(b"seed", chance) for _ in range(50)] for chance in (random.Random(7), random.Random(7))]
    assert made[0] == made[1]
    assert len(set(made[0])) > 25
