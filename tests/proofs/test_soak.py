"""A steady load, with settled questions removed beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.proof,
    pytest.mark.slow("a load of half a minute, whose times are compared"),
    pytest.mark.timeout(120),
]

ROOT = Path(__file__).parent.parent.parent


def test_a_short_soak_loses_nothing_and_removes_beside_the_load() -> None:
    """Half a minute is too short to say that latency is flat or the tables bounded: the hour's run says that."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--quick", "--share", "0.3", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["pairs"] > 100
    assert figures["removed"] > 0
    for name in ("flat_ask", "flat_answer", "bounded"):
        print(f"\n  {name:26} {figures[name]:.2f}", end="")
    assert max(figures["flat_ask"], figures["flat_answer"]) < 5, "ever slower"
