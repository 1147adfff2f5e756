"""The table of what integrations can do: its columns, and the marks that tie a test to the cells it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

CELLS = {
    "ask": "a person is asked, and the validated answer reaches the model or the program",
    "approve": "an action waits for its approval, and a denied one is not executed",
    "edit": "an action is executed with the arguments that the person changed",
    "survives kill": "the process is killed with SIGKILL while it waits; what ran before the pause ran once",
    "resumes elsewhere": "another process goes on with the answer",
    "several at once": "two questions are pending in one run, answered in reverse order, each reaching its own call",
    "asks once": "retried or replayed code asks the same question, and not another one",
    "other endings": "declined and expired reach the model as such, and are never taken for an answer",
}
LONG_WAY = ("ask", "approve", "edit", "survives kill", "resumes elsewhere", "several at once", "asks once")
"""What one test can show that goes all the way: asked several things, killed, answered in reverse, gone on elsewhere."""
INTEGRATIONS = (
    "mcp",
    "ag-ui",
    "openai-agents",
    "langgraph",
    "langchain",
    "pydantic-ai",
    "claude-agent-sdk",
    "claude-code",
    "temporal",
    "dbos",
    "restate",
    "a2a",
    "google-adk",
    "agent-framework",
    "llama-index",
    "smolagents",
)

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
