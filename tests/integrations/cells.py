"""The marks that tie a test to the cells of the table of integrations that it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from support.integration_cells import CELLS, INTEGRATIONS

Test = TypeVar("Test", bound=Callable[..., object])

LONG_WAY = ("ask", "approve", "edit", "survives kill", "resumes elsewhere", "several at once", "asks once")
"""What one test can show that goes all the way: asked several things, killed, answered in reverse, gone on elsewhere."""
killed_in_the_gate = pytest.mark.only_proof_of(
    "a process with the real framework is killed, and another goes on"
)
"""The one test of an integration that kills in the gate."""
more_processes = pytest.mark.slow(
    "starts processes with a framework; the gate has one kill of each integration"
)
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
