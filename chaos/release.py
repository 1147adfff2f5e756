"""Every proof at its full size, one after the other, and the page of their results.

python -m chaos release                    all of them: hours, on two cores
python -m chaos release kills model        these; the earlier results of the others are kept
python -m chaos release --page             only write the page again

A proof is a command that anybody can run by itself. Its result is its exit code and the lines that it prints;
both are kept in docs/reference/proofs.json, and the page docs/reference/proofs.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "docs" / "reference" / "proofs.json"
PAGE = ROOT / "docs" / "reference" / "proofs.md"

_NIGHTLY = {"HANDRAISE_TIER": "nightly"}
_HOSTILE = (
    "tests/server/inbox/test_hostile.py tests/cli/test_hostile.py tests/channels/test_slack_hostile.py "
    "tests/channels/test_email_hostile.py tests/server/test_hostile_logs.py tests/channels/test_telegram_hostile.py "
    "tests/channels/test_discord_hostile.py tests/channels/test_teams_hostile.py"
)
_HEAD = """# Proofs at their full size

Made by `python -m chaos release` from what its proofs printed; [the page of trust](../explanation/trust.md) says what each is
about. CI runs a smaller size of each.

| proof | goal | came to | seconds | command |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Proof:
    """One command, its goal, and which of its lines contain the result."""

    name: str
    goal: str
    command: str
    lines: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def typed(self) -> str:
        """The command line that runs it."""
        return " ".join([*(f"{name}={value}" for name, value in self.environment.items()), self.command])


PROOFS = (
    Proof(
        "kills", "10,000 SIGKILLs, no violation", "python -m chaos kills --kills 5000", r"kills \(|violations"
    ),
    Proof(
        "failpoints",
        "every failpoint struck in every way, PostgreSQL and SQLite",
        "python -m chaos failpoints",
        r"runs in|never reached|without|violations",
    ),
    Proof(
        "failpoint pairs",
        "every two of them, PostgreSQL",
        "python -m chaos failpoints --pairs --backend postgres",
        r"runs in|never reached|without|violations",
    ),
    Proof(
        "faults",
        "300 crashes of PostgreSQL, 30 synchronous fail-overs, 2,000 cuts at COMMIT, and the others",
        "python -m chaos faults --full",
        r"; (good|\d+ PROBLEMS)",
    ),
    Proof(
        "histories",
        "10,000 stateful histories as the reference says",
        "pytest -m proof -s tests/chaos/test_stateful.py",
        r"histories on|passed|failed",
        {**_NIGHTLY, "HANDRAISE_PROOF_HISTORIES": "10000"},
    ),
    Proof("model", "10,000,000 distinct states", "python -m chaos model --full", r"states"),
    Proof("mistakes", "every mistake in the model found", "python -m chaos model --mistakes", r"found|FOUND"),
    Proof(
        "requests",
        "100,000 fuzzed HTTP requests, none answered by 5xx",
        "pytest -m proof -s tests/chaos/test_requests.py",
        r"\d requests|passed|failed",
        {**_NIGHTLY, "HANDRAISE_PROOF_REQUESTS": "100000"},
    ),
    Proof(
        "planted",
        "every planted bug caught",
        "python -m chaos planted",
        r"planted bugs|NOT CAUGHT|DOES NOT FIT",
    ),
    Proof(
        "parsers",
        "a minute for each parser",
        "python -m chaos fuzzing --seconds 60",
        r"no failure|FAILED|Error",
    ),
    Proof(
        "hostile texts", "500 texts, in 6 sinks and more", f"pytest {_HOSTILE}", r"passed|failed", _NIGHTLY
    ),
)


def main(arguments: Sequence[str]) -> int:
    """Run the named proofs, or all, and write the page; return 1 unless every one succeeded."""
    parser = argparse.ArgumentParser(prog="python -m chaos release", description=__doc__)
    parser.add_argument("names", nargs="*", help="; ".join(proof.name for proof in PROOFS))
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args(arguments)
    known = {proof.name: proof for proof in PROOFS}
    if unknown := set(given.names) - known.keys():
        parser.error(f"there is no proof called {', '.join(sorted(unknown))}")
    good = True
    for proof in [] if given.page else [known[name] for name in given.names] or PROOFS:
        print(f"== {proof.name}: {proof.typed}", flush=True)
        came_to = run(proof)
        good &= came_to["good"]
        KEPT.write_text(json.dumps(_kept() | {proof.name: came_to}, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(_kept()))
    if given.page:
        PAGE.write_text(page(_kept()))
    return 0 if good else 1


def run(proof: Proof) -> dict[str, Any]:
    """The result of a proof; everything that it prints is shown meanwhile."""
    began = time.monotonic()
    program, *options = proof.command.split()
    command = [sys.executable, *options] if program == "python" else [sys.executable, "-m", program, *options]
    told: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **proof.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if re.search(proof.lines, line):
                told.append(line.strip(" =\n"))
    return {
        "good": process.returncode == 0,
        "day": f"{datetime.now(UTC):%Y-%m-%d}",
        "seconds": round(time.monotonic() - began),
        "told": told,
    }


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The page of the stored results."""
    rows, told = [], []
    for proof in PROOFS:
        came_to = kept.get(proof.name)
        said, took = "not run", ""
        if came_to is not None:
            said = f"{'as it should' if came_to['good'] else '**not as it should**'}, {came_to['day']}"
            took = f"{came_to['seconds']:,}"
            told.append(f"## {proof.name.capitalize()}\n\n```text\n" + "\n".join(came_to["told"]) + "\n```\n")
        rows.append(f"| {proof.name} | {proof.goal} | {said} | {took} | `{proof.typed}` |\n")
    return _HEAD + "".join(rows) + "\n" + "\n".join(told)


def _kept() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}
