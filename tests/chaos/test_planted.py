"""The planted bugs fit the product as it is. The gate plants a sample of them, nightly all; each is caught."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from chaos.planted import BUGS, SAMPLE, Bug, Tier, is_good, open_field, sample, summary
from chaos.planted.planter import ROOT, DoesNotFit, Field
from tests.tiers import NIGHTLY, SEED

FEW = 4
"""So many are planted in the gate, others with every seed."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_and_its_tests_are_there(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.good) == 1
    assert bug.good != bug.bad
    for test in bug.tests:
        path, *_, name = re.sub(r"\[.*\]$", "", test).split("::")
        contract = "".join(
            each.read_text(encoding="utf-8")
            for each in (ROOT / "src/handraise/testing/contract").rglob("*.py")
        )
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") + contract


@pytest.mark.only_proof_of("no bug is planted that the gate cannot find")
def test_every_bug_has_a_test_of_the_gate_or_a_reason_to_have_none() -> None:
    """Otherwise the gate fails on the day on which that bug has its turn."""
    tests = sorted({test for bug in BUGS for test in bug.tests})
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-m", "not slow", *tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HANDRAISE_TIER": "gate"},
    )
    assert listed.returncode == 0, listed.stdout[-2_000:] + listed.stderr[-2_000:]
    found = listed.stdout.splitlines()

    def is_in_the_gate(test: str) -> bool:
        return any(each == test or each.startswith((f"{test}[", f"{test}::")) for each in found)

    left_out = {bug.name for bug in BUGS if not any(map(is_in_the_gate, bug.tests))}
    assert left_out == {bug.name for bug in BUGS if bug.only_nightly}


def test_there_are_enough_and_each_has_its_turn() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 25
    seen = {bug.name for rotation in range(len(BUGS)) for bug in sample(rotation)}
    assert seen == {bug.name for bug in BUGS}
    assert {len(sample(rotation)) for rotation in range(len(BUGS))} == {SAMPLE}


def test_a_bug_that_fits_no_more_fails_loudly() -> None:
    gone = Bug("gone", "", "CHANGELOG.md", "nobody wrote this", "x", ("tests/test_promises.py",))
    with pytest.raises(DoesNotFit, match="gone: its text is 0 times in"):
        Field(ROOT).try_one(gone)
    same = Bug("same", "", "CHANGELOG.md", "# Changelog\n", "# Changelog\n", ("tests/test_promises.py",))
    with pytest.raises(DoesNotFit, match="same: its text is"):
        Field(ROOT).try_one(same)


def test_at_the_gate_only_those_with_a_reason_may_get_away() -> None:
    free = Bug("free", "", "", "", "", ())
    excused = Bug("excused", "", "", "", "", (), only_nightly="it takes an hour")
    assert is_good([], "gate")
    assert is_good([excused], "gate")
    assert not is_good([excused, free], "gate")
    assert not is_good([excused], "nightly")
    assert summary([free, excused], [excused], "gate", 1.0) == [
        "1 of 2 planted bugs were caught by the gate, in 1 s",
        "  only nightly: excused, because it takes an hour",
    ]
    assert summary([free], [], "nightly", 1.0) == ["1 of 1 planted bugs were caught, in 1 s"]


def test_a_bug_whose_tests_are_all_slow_is_not_caught_by_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a tree of its own: one test is slow, the other is not, and both fail with the bug."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a third of the time
    (tmp_path / "tree").mkdir()
    tree = tmp_path / "tree"
    (tree / "number.txt").write_text("1")
    (tree / "pytest.ini").write_text("[pytest]\nmarkers = slow(reason)\n")
    (tree / "test_it.py").write_text(
        "import os, pathlib, pytest\n"
        "def look(): assert pathlib.Path('number.txt').read_text() == '1', os.environ['HANDRAISE_TIER']\n"
        "def test_quick(): look()\n"
        "@pytest.mark.slow('')\n"
        "def test_slow(): look()\n"
    )
    slow = Bug("slow", "", "number.txt", "1", "2", ("test_it.py::test_slow",))
    both = Bug("both", "", "number.txt", "1", "2", ("test_it.py",))
    for bug, tier, left_out, by in (
        (slow, "gate", True, None),
        (slow, "nightly", False, "test_slow"),
        (both, "gate", False, "test_quick"),
    ):
        verdict = Field(tree, cast("Tier", tier)).try_one(bug)
        assert (verdict.left_out, verdict.by) == (left_out, by), verdict.output
        assert verdict.left_out or f"AssertionError: {tier}" in verdict.output


def test_the_command_lists_them_and_knows_no_others() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "chaos", "planted", "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(listed.stdout.splitlines()) == len(BUGS)
    for wrong in (["planted", "nothing"], ["nothing"], []):
        ran = subprocess.run(
            [sys.executable, "-m", "chaos", *wrong], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 2


@pytest.mark.proof
@pytest.mark.only_proof_of("the tests of the gate fail where the product is wrong")
@pytest.mark.timeout(3_600)
def test_planted_bugs_are_caught() -> None:
    tier: Tier = "nightly" if NIGHTLY else "gate"
    bugs = BUGS if NIGHTLY else [bug for bug in sample(SEED, FEW) if not bug.only_nightly]
    print(f"\n  {len(bugs)} bugs, rotation {SEED}")
    with open_field(tier) as field:
        verdicts = [field.try_one(bug) for bug in bugs]
    for verdict in verdicts:
        print(f"  {verdict.bug.name}: {verdict.by or 'NOT CAUGHT'} ({verdict.seconds:.1f} s)")
    assert [verdict.bug.name for verdict in verdicts if not verdict.caught] == []
