"""The benchmark runs and prints its ratios. Its figures are for people to read, not for a test to judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.proof, pytest.mark.timeout(120)]

ROOT = Path(__file__).parent.parent.parent


def test_pairs_prints_its_ratios_as_one_line_of_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pairs", "--seconds", "1", "--rounds", "1", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    for name in ("ratio_to_bare_coalesced", "ratio_to_bare_single", "ratio_of_lone_ask", "ratio_of_wake_p50"):
        assert figures[name] > 0
        print(f"\n  {name:26} {figures[name]:.2f}", end="")
