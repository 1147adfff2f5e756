"""The first pages a stranger sees, README and CONTRIBUTING: short, checkable, and true."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from support.integration_cells import INTEGRATIONS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_it_begins_with_what_it_is_and_a_program_of_ten_lines() -> None:
    _, what, *_ = TEXT.split("\n\n")
    assert what.count(". ") == 0, "one sentence"
    [program, *_] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    assert len(TEXT.splitlines()) <= 190


def test_it_has_what_a_stranger_looks_for_in_this_order() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert headings == [
        "What people see",
        "Why",
        "What it promises",
        "How it compares",
        "How it is built",
        "A server",
        "Where to go next",
        "Status",
    ]
    assert section("How it is built").count("```mermaid") == 1


def test_every_row_of_the_comparison_can_be_checked() -> None:
    rows = [line for line in section("How it compares").splitlines() if line.startswith("| ")]
    head, ours, *others = rows
    assert all(row.count("|") == head.count("|") for row in rows)
    assert ours.startswith("| **Handraise** |")
    assert len(others) >= 6
    for row in others:
        assert re.match(r"\| \[[^]]+\]\(https://github\.com/[\w-]+/[\w-]+\)", row), row
        seen = re.search(r", (\d{4}-\d{2}-\d{2}) \|$", row)
        assert seen, f"when was this seen? {row}"
        assert date.fromisoformat(seen[1]) < date(2026, 11, 15)


def test_the_numbers_in_the_status_are_true() -> None:
    numbers = {14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen"}
    assert f"{numbers[len(INTEGRATIONS)]} integrations" in " ".join(section("Status").split())
    channels = re.search(r"\| (inbox, terminal, .+?) \| Apache", TEXT)
    assert channels
    assert len(channels[1].split(", ")[2:]) == 9
    assert "nine channels" in " ".join(section("Status").split())


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_map_has_every_room_and_leads_nowhere_else() -> None:
    rooms = {each.name for each in (ROOT / "src" / "handraise").iterdir() if each.is_dir()} - {"__pycache__"}
    assert [name for name in sorted(rooms) if f"`src/handraise/{name}/`" not in CONTRIBUTING] == []
    for folder in ("tests", "chaos", "benchmarks", "deploy", "examples", "scripts", "docs"):
        assert re.search(rf"^\| `{folder}/`", CONTRIBUTING, re.MULTILINE), folder
    named = re.findall(r"`((?:src|tests|docs|scripts|chaos|examples|\.github|\.ci)/[\w./-]+)`", CONTRIBUTING)
    inside = re.findall(
        r"`((?:model|ports|desk|backends|server|channels|integrations|testing)/[\w./-]+)`", CONTRIBUTING
    )
    paths = [ROOT / name for name in named] + [ROOT / "src" / "handraise" / name for name in inside]
    made_up = {"yours", "yours.py", "test_yours.py"}
    assert [str(path) for path in paths if path.name not in made_up and not path.exists()] == []


def test_contributing_tells_how_to_add_what_people_add() -> None:
    for what in ("migration", "kind of form", "channel", "integration", "backend", "route", "public name"):
        assert re.search(rf"^## How to add an? {what}$", CONTRIBUTING, re.MULTILINE), what
    assert "\n$ .ci/run quick\n" in CONTRIBUTING


def test_the_security_policy_says_which_versions_and_how_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[:2] == [
        "Supported versions",
        "Report a vulnerability",
    ]
