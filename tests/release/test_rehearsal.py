"""A release can be made from the last commit, and used by somebody who has nothing installed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from support.doc_pages import ROOT


@pytest.mark.proof
@pytest.mark.slow("builds, installs a registry of npm and what the server needs; nothing of it changes often")
@pytest.mark.timeout(900)
def test_what_is_tagged_is_published_and_runs_with_uvx_and_from_npm() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.release", "rehearse"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=880,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    steps = re.findall(r"^ *[\d.]+ s  (.+)$", done.stdout, re.MULTILINE)
    assert steps == [
        "build",
        "publish to the index",
        "publish to the npm registry",
        "uvx, until the link is there",
        "ask with the npm package",
    ]
