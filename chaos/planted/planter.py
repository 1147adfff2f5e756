"""A copy of the tree in which bugs are planted, and the tests that are run there.

The repository itself is never touched. Tests that use PostgreSQL make their own databases, as always.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.planted.bugs import Bug

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".cache", ".hypothesis", ".import_linter_cache", "node_modules", "dist", "build"
)
_PASSED, _FAILED, _NONE = 0, 1, 5
_WITHIN = 300.0
_TOLD = 4_000

Tier = Literal["gate", "nightly"]
"""Which tests of a bug are run, and at which size; tests/tiers.py has more of it."""


class DoesNotFit(Exception):
    """A bug cannot be planted, or its tests cannot be run: it proves nothing and must be fixed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a planted bug: the test that caught it, or the output of the tests that did not."""

    bug: Bug
    by: str | None
    seconds: float
    output: str
    left_out: bool = False
    """Whether all of its tests are left out of this tier."""

    @property
    def caught(self) -> bool:
        """Whether a test failed because of it."""
        return self.by is not None


@contextmanager
def open_field(tier: Tier = "nightly") -> Iterator[Field]:
    """A copy of the tree, for as long as this context lasts."""
    with tempfile.TemporaryDirectory(prefix="handraise-planted-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT, symlinks=True)
        field = Field(tree, tier)
        field.check_own()
        yield field


class Field:
    """Plants one bug at a time, and runs its tests as a tier does."""

    def __init__(self, tree: Path, tier: Tier = "nightly") -> None:
        self._tree = tree
        self._tier = tier

    def try_one(self, bug: Bug) -> Verdict:
        """Plant a bug, run its tests until one fails, and take it out again."""
        began = time.monotonic()
        with self._planted(bug):
            status, output, failed = self._test(bug.tests)
        left_out = status == _NONE and self._tier == "gate"
        if (status not in (_PASSED, _FAILED) and not left_out) or (status == _FAILED and not failed):
            raise DoesNotFit(f"{bug.name}: its tests did not run\n{output[-_TOLD:]}")
        took = time.monotonic() - began
        return Verdict(bug, failed[0] if failed else None, took, output[-_TOLD:], left_out)

    def check_unplanted(self, bugs: Sequence[Bug]) -> None:
        """Check that all tests of these bugs pass while nothing is planted."""
        tests = list(dict.fromkeys(test for bug in bugs for test in bug.tests))
        status, output, _ = self._test(tests, within=10 * _WITHIN)
        if status != _PASSED:
            raise DoesNotFit(f"the tests fail without any bug\n{output[-_TOLD:]}")

    def check_own(self) -> None:
        """Check that tests run here import the copy, not the installed package."""
        found = self._run("-c", "import handraise; print(handraise.__file__)").stdout.strip()
        if not Path(found).is_relative_to(self._tree):
            raise DoesNotFit(f"tests would import {found} and see no bug")

    @contextmanager
    def _planted(self, bug: Bug) -> Iterator[None]:
        path = self._tree / bug.file
        good = path.read_text(encoding="utf-8")
        if good.count(bug.good) != 1 or bug.bad == bug.good:
            raise DoesNotFit(f"{bug.name}: its text is {good.count(bug.good)} times in {bug.file}, not once")
        path.write_text(good.replace(bug.good, bug.bad), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(good, encoding="utf-8")

    def _test(self, tests: Sequence[str], within: float = _WITHIN) -> tuple[int, str, Sequence[str]]:
        """The exit status, the output, and which tests failed; an error of a fixture is not a failure."""
        report = self._tree.parent / "report.xml"
        report.unlink(missing_ok=True)
        ran = self._run(
            "-m",
            "pytest",
            "-x",
            "-q",
            "--tb=short",
            "--no-header",
            f"--junitxml={report}",
            *(("-m", "not slow") if self._tier == "gate" else ()),
            *tests,
            within=within,
        )
        failed = []
        if report.exists():
            for case in ET.parse(report).iter("testcase"):  # noqa: S314 -- what pytest wrote itself
                if case.find("failure") is not None:
                    failed.append(str(case.get("name")))  # noqa: PERF401 -- one at a time is easier to read
        return ran.returncode, ran.stdout + ran.stderr, failed

    def _run(self, *arguments: str, within: float = _WITHIN) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(self._tree / "src"), str(self._tree))),
            # A bug of the same length, planted within the same second, would leave the old bytecode valid.
            "PYTHONDONTWRITEBYTECODE": "1",
            "HANDRAISE_TIER": self._tier,
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self._tree.parent / "hypothesis"),
        }
        try:
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=self._tree,
                env=environment,
                capture_output=True,
                text=True,
                timeout=within,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DoesNotFit(f"the tests took longer than {within:g} seconds") from error
