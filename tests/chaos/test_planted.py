"""The planted bugs fit the product as it is; a sample of them is planted, and caught. All of them: `python -m chaos planted`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from chaos.planted import BUGS, SAMPLE, Bug, open_field, sample, today
from chaos.planted.planting import ROOT, DoesNotFit, Field


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
@pytest.mark.timeout(900)
def test_a_sample_of_planted_bugs_is_caught() -> None:
    print(f"\n  rotation {today()}")
    with open_field() as field:
        verdicts = [field.try_one(bug) for bug in sample(today())]
    for verdict in verdicts:
        print(f"  {verdict.bug.name}: {verdict.by or 'NOT CAUGHT'} ({verdict.seconds:.1f} s)")
    assert [verdict.bug.name for verdict in verdicts if not verdict.caught] == []
