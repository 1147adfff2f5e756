"""Integrations are tested beside their real frameworks, in an environment of their own: `.ci/run integrations`.

What each test shows is written down, and the table in the docs is made from that. Of a test that was collected and did not
run, as most slow ones in the gate, it is written down that it was collected: `python -m scripts.integrations` says what
that counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from handraise import Desk, open_desk
from support.integration_cells import RESULTS

if find_spec("mcp") is None and "HANDRAISE_INTEGRATIONS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'questions.db'}"


@pytest.fixture
async def desk(url: str) -> AsyncIterator[Desk]:
    async with open_desk(url) as desk:
        yield desk


_results: dict[str, list[dict[str, str]]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in the report of a test which cells of the table it shows."""
    del call
    report = yield
    report.user_properties += [("cell", cell) for cell in cells_of(item)]
    return report


def cells_of(item: pytest.Item) -> Iterator[dict[str, str]]:
    """The cells of the table that a test is marked with."""
    for mark in item.iter_markers("shows"):
        integration, *cells = mark.args
        yield from ({"integration": integration, "cell": cell} for cell in cells)
    for mark in item.iter_markers("cannot"):
        integration, cell, because = mark.args
        yield {"integration": integration, "cell": cell, "because": because}


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves any out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Write down which cells were collected, and leave what is known of earlier runs; of workers, the first one does."""
    if getattr(config, "workerinput", {"workerid": "gw0"})["workerid"] != "gw0":
        return
    collected = {
        item.nodeid: [{**about(item.nodeid, "collected"), **cell} for cell in cells_of(item)]
        for item in items
    }
    if any(collected.values()):
        write(collected | kept())


def about(test: str, outcome: str) -> dict[str, str]:
    return {"test": test.partition("[")[0], "outcome": outcome}


def kept() -> dict[str, Any]:
    """What earlier runs have written down."""
    return dict(json.loads(RESULTS.read_text())) if RESULTS.exists() else {}


def write(results: Mapping[str, Any]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of each test that shows a cell."""
    if report.when == "call" or not report.passed:
        cells: list[Any] = [value for name, value in report.user_properties if name == "cell"]
        _results.setdefault(report.nodeid, []).extend(
            {**about(report.nodeid, report.outcome), **cell} for cell in cells
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the results beside those of earlier runs of other files; where there are workers, they have written none."""
    if not any(_results.values()) or hasattr(session.config, "workerinput"):
        return
    write(kept() | _results)
