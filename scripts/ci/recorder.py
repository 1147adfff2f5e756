"""A pytest plugin that writes what each test cost to `.cache/ci/STAGE.json`: `python -m pytest -p scripts.ci.recorder`.

The stage is in CI_STAGE. With workers, only the process that collects their reports writes.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from scripts.ci.costs import FOLDER


@dataclass
class Cost:
    """How long a test took, with its fixtures and without; whether it failed; whether it may be slow in the gate."""

    seconds: float = 0.0
    call: float = 0.0
    failed: bool = False
    ran: bool = False
    only_proof: bool = False


class Recorder:
    """Adds up the reports of each test and writes them at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._costs: dict[str, Cost] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add setup, call and teardown of a test."""
        cost = self._costs.setdefault(report.nodeid, Cost())
        cost.seconds += report.duration
        cost.call += report.duration if report.when == "call" else 0.0
        cost.failed |= report.failed
        cost.ran |= report.when == "call" and not report.skipped
        cost.only_proof |= "only_proof_of" in report.keywords

    def pytest_sessionfinish(self) -> None:
        """Write everything that was added up."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({test: asdict(cost) for test, cost in self._costs.items()}))


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that hears of all tests, and only there."""
    if not hasattr(config, "workerinput"):
        stage = os.environ.get("CI_STAGE", "tests")
        config.pluginmanager.register(Recorder(FOLDER / f"{stage}.json"), "costs")
