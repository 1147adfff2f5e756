"""The marks that tie a test to the cells of the table of integrations that it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from support.integration_cells import CELLS, INTEGRATIONS
from tests.tiers import drawn

Test = TypeVar("Test", bound=Callable[..., object])

LONG_WAY = ("ask", "approve", "edit", "survives kill", "resumes elsewhere", "several at once", "asks once")
"""What one test can show that goes all the way: asked several things, killed, answered in reverse, gone on elsewhere."""
more_processes = pytest.mark.slow(
    "starts processes with a framework; one test of each integration kills, and the gate has half of those"
)
separate = pytest.mark.slow("its framework has an environment of its own, which only nightly makes")
ON_BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.slow("the gate kills on SQLite"))]
"""What a process that is killed keeps its questions in."""
KILLED_WHILE = [
    pytest.param(
        *("sqlite", ["die"]),
        id="posting",
        marks=pytest.mark.slow("the gate kills where it waits, which lasts longer"),
    ),
    pytest.param("postgres", [], id="waiting"),
]
"""Where a workflow keeps its questions, what kills it while it asks, and the names of both."""


_KILLING = sorted(
    path.stem
    for path in Path(__file__).parent.glob("test_*.py")
    if "@killed_in_the_gate" in path.read_text(encoding="utf-8")
)
_KILLED = drawn(_KILLING, 7)


def killed_in_the_gate(test: Test) -> Test:
    """Mark the one test of an integration that kills. The gate has half of them, drawn with the seed of the run.

    All of them resume through the same few modules, so a change there breaks some of those that are drawn.
    """
    if test.__module__.rpartition(".")[2] not in _KILLED:
        mark = pytest.mark.slow("starts processes with a framework; this run kills those of others")
    else:
        mark = pytest.mark.only_proof_of("a process with the real framework is killed, and another goes on")
    marked: Test = mark(test)
    return marked


def shows(integration: str, *cells: str) -> Callable[[Test], Test]:
    """Tie a test to what it shows that an integration can do."""
    return pytest.mark.shows(_known(integration), *map(_cell, cells))


def cannot(integration: str, cell: str, because: str) -> Callable[[Test], Test]:
    """Tie a test to what it shows that a framework does not allow, and why."""
    return pytest.mark.cannot(_known(integration), _cell(cell), because)


def _known(integration: str) -> str:
    if integration not in INTEGRATIONS:
        raise ValueError(f"There is no integration {integration}.")
    return integration


def _cell(cell: str) -> str:
    if cell not in CELLS:
        raise ValueError(f"There is no cell {cell}.")
    return cell
