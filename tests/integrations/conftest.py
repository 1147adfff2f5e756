"""Integrations are tested beside their real frameworks, in an environment of their own: `.ci/run integrations`.

What each test shows is written down, and the table in the docs is made from that.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from handraise import Desk, open_desk

RESULTS = Path(__file__).parent.parent.parent / ".cache" / "integrations.json"

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
    for mark in item.iter_markers("shows"):
        integration, *cells = mark.args
        report.user_properties += [("cell", {"integration": integration, "cell": cell}) for cell in cells]
    for mark in item.iter_markers("cannot"):
        integration, cell, because = mark.args
        said = {"integration": integration, "cell": cell, "because": because}
        report.user_properties.append(("cell", said))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep what came of each test that shows a cell."""
    if report.when == "call" or not report.passed:
        about = {"test": report.nodeid.partition("[")[0], "outcome": report.outcome}
        cells: list[Any] = [value for name, value in report.user_properties if name == "cell"]
        _results.setdefault(report.nodeid, []).extend({**about, **cell} for cell in cells)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the results beside those of earlier runs of other files; where there are workers, they have written none."""
    if not any(_results.values()) or hasattr(session.config, "workerinput"):
        return
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept | _results, indent=1, sort_keys=True))
