"""Every promise has a test, and every test's promise exists."""

from __future__ import annotations

import inspect

from handraise.testing import PROMISES
from handraise.testing.contract import DeskContract
from handraise.testing.contract.workspace_event_cases import WorkspaceEventCases


def promises_of(test: object) -> set[str]:
    marks = getattr(test, "pytestmark", [])
    return {each for mark in marks if mark.name == "promise" for each in mark.args}


def contract_tests() -> dict[str, set[str]]:
    members = inspect.getmembers(DeskContract, inspect.isfunction)
    return {name: promises_of(test) for name, test in members if name.startswith("test_")}


def test_every_promise_has_a_test_that_runs_on_every_backend() -> None:
    proven = set().union(*contract_tests().values())
    # No desk has administrators: this one is proven on what is below it.
    of_the_trail = inspect.getmembers(WorkspaceEventCases, inspect.isfunction)
    proven |= set().union(*(promises_of(test) for _, test in of_the_trail))
    assert proven == set(PROMISES)


def test_the_contract_is_not_small() -> None:
    cases = sum(number_of_cases(test) for _, test in inspect.getmembers(DeskContract, inspect.isfunction))
    assert cases >= 120


def number_of_cases(test: object) -> int:
    if not getattr(test, "__name__", "").startswith("test_"):
        return 0
    count = 1
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            count *= len(list(mark.args[1]))
    return count
