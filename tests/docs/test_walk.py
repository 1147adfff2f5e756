"""The tutorial can be walked in a clean environment, with the wheel that would be released."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from scripts.walk import PARTS
from support.doc_pages import ROOT


@pytest.mark.proof
@pytest.mark.slow("makes an environment with pip; test_consoles.py gives the same commands in the gate")
@pytest.mark.timeout(900)
def test_the_tutorial_can_be_walked_from_its_first_step_to_its_last_with_the_built_wheel() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.walk"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=880,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert re.findall(r"([\w-]+): done", done.stdout) == list(PARTS)
    assert re.search(r"[\d.]+ s  in all", done.stdout)
