"""The wheel in clean environments: bounded, listed, and working. `python -m scripts.release check` is the same.

`pytest -m proof -s tests/release` prints how many packages each brings and how large they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.release import clean
from scripts.release.__main__ import main

CORE = clean.Clean("core", Path(), dict.fromkeys({"handraise", *clean.OF_PYDANTIC}, "1.0"), 10.0)


@pytest.mark.proof
@pytest.mark.slow("makes environments with pip; test_wheel.py looks into the wheel in the gate")
@pytest.mark.timeout(600)
def test_a_release_can_be_made_and_works_where_nothing_else_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", str(tmp_path)])
    said = capfd.readouterr()
    print(said.out)
    assert code == 0, said.err
    assert "core: 5 dependencies" in said.out
    for name in clean.BOUNDS:
        (parts,) = tmp_path.glob(f"*-{name}.cdx.json")
        text = parts.read_text(encoding="utf-8")
        listed = json.loads(text)
        assert listed["bomFormat"] == "CycloneDX"
        assert listed["metadata"]["component"]["name"] == "handraise"
        assert all(each.get("licenses") for each in listed["components"])
        assert str(tmp_path) not in text


def test_the_core_brings_pydantic_and_is_small() -> None:
    assert clean.faults(CORE) == []
    more = replace(CORE, packages={**CORE.packages, "requests": "2.0"})
    assert clean.faults(more) == [
        "core brings 6 packages, and may bring 5",
        "the core brings requests, and may bring Pydantic only",
    ]
    larger = replace(CORE, megabytes=clean.BOUNDS["core"].megabytes + 1)
    assert len(clean.faults(larger)) == 1
