"""A pytest plugin that writes what each test cost to `.cache/ci/STAGE.json`: `python -m pytest -p scripts.ci.recorder`.

The stage is in CI_STAGE. With workers, only the process that collects their reports writes. With CI_AFTER, the name of
another stage, only those tests run that have not passed there. With CI_IDLE, a number of seconds, a run in which no
test has ended for so long is interrupted: when a worker dies, pytest-xdist sometimes waits forever with a few tests
left. Until the first test has ended, it may take longer: each worker first imports every test.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from scripts.ci.costs import FOLDER, read

COLLECTING = 600.0
"""How many seconds more the workers may take to import the tests. It takes 30, and three minutes on a busy machine."""


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
        self._ended_at: float | None = None
        self._began_at = time.monotonic()

    def is_idle(self, seconds: float) -> bool:
        """Whether no test has ended for so long."""
        since = self._began_at + COLLECTING if self._ended_at is None else self._ended_at
        return time.monotonic() - since >= seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add setup, call and teardown of a test."""
        self._ended_at = time.monotonic()
        if report.failed:  # named at once: the run may take long, or be stopped
            os.write(2, f"\nfailed: {report.nodeid}\n".encode())
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
    """Record only in the process that gets the reports of all tests."""
    if hasattr(config, "workerinput"):
        return
    recorder = Recorder(FOLDER / f"{os.environ.get('CI_STAGE', 'tests')}.json")
    config.pluginmanager.register(recorder, "costs")
    if idle := float(os.environ.get("CI_IDLE", "0")):
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a shell ignores it for what it runs in the background
        threading.Thread(target=_interrupt_when_idle, args=(recorder, idle), daemon=True).start()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that passed in the stage before."""
    before = read(os.environ.get("CI_AFTER", ""))
    passed = {test for test, cost in before.items() if cost["ran"] and not cost["failed"]}
    left_out = [item for item in items if item.nodeid in passed]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid not in passed]


def _interrupt_when_idle(recorder: Recorder, idle: float) -> None:
    while not recorder.is_idle(idle):
        time.sleep(idle / 100)
    os.write(2, f"\nno test has ended for {idle:g} s: interrupted\n".encode())
    os.kill(os.getpid(), signal.SIGINT)
