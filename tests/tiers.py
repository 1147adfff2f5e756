"""The two tiers of tests. The gate is what every change must pass; nightly is everything, at full size.

A test leaves the gate by the marker `slow`, with a reason:

    @pytest.mark.slow("starts a cluster; tests/backends/test_postgres.py has the statements")

A test that is worth running in the gate at a smaller size asks for its size here.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

NIGHTLY = os.environ.get("HANDRAISE_TIER", "gate") == "nightly"
SEED = int(os.environ.get("HANDRAISE_SEED", "1"))
"""What is drawn in the gate. It is printed at the head of a run; all processes of a run have the same one."""

MOST_ROWS = 8
"""A table of the contract with more rows than this counts as its first row, on backends that run only promises."""


def sized(*, gate: int, nightly: int) -> int:
    """How many, in this tier."""
    return nightly if NIGHTLY else gate


def drawn(cases: Sequence[T], number: int) -> Sequence[T]:
    """All of them nightly; in the gate so many of them, drawn with the seed of the run and in their old order."""
    if NIGHTLY or len(cases) <= number:
        return cases
    chance = random.Random(SEED)
    return [cases[place] for place in sorted(chance.sample(range(len(cases)), number))]


def mark_what_leaves_the_gate(items: Sequence[Any]) -> None:
    """Mark as slow what a class that is marked `promises_only` does not run in the gate. Every marker says why."""
    for item in items:
        for name in ("slow", "promises_only", "only_proof_of"):
            for mark in item.iter_markers(name):
                if not (len(mark.args) == 1 and str(mark.args[0]).strip()):
                    raise pytest.UsageError(
                        f"{item.nodeid}: the marker {name} needs one sentence that says why."
                    )
        only = item.get_closest_marker("promises_only")
        if only is not None and not _stays(item):
            item.add_marker(pytest.mark.slow(*only.args))


def _stays(item: Any) -> bool:
    rows = [mark for mark in item.iter_markers("parametrize") if len(list(mark.args[1])) > MOST_ROWS]
    if rows:
        return all(place == 0 for place in item.callspec.indices.values())
    return item.get_closest_marker("promise") is not None
