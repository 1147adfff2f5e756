"""The first pages a stranger sees, README and CONTRIBUTING: short, checkable, and true."""

from __future__ import annotations

import re
from pathlib import Path

from support.integration_cells import INTEGRATIONS

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_it_begins_with_what_it_is_a_picture_and_a_program_of_five_lines() -> None:
    _, what, picture, *_ = TEXT.split("\n\n")
    assert what.count(". ") == 0, "one sentence"
    assert picture.startswith("<img ")
    [program] = re.findall(r"```python[^\n]*\n(.*?)```", TEXT, re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip() and not line.startswith("#")]) <= 5
    assert len(TEXT.splitlines()) <= 150


def test_it_has_what_a_stranger_looks_for_in_this_order() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert headings == [
        "What you get",
        "What people see",
        "A server",
        "Where to go next",
        "Status",
    ]


def test_it_claims_little_that_a_reader_can_check_and_leads_to_the_proofs_of_the_rest() -> None:
    claims, _, rest = section("What you get").partition("\n\nWhat takes longer to check")
    assert 5 <= claims.count("\n- ") <= 8
    assert "tests/" not in claims
    for page in ("promises", "trust", "performance", "comparison"):
        assert f"(docs/explanation/{page}.md" in rest


def test_the_number_of_integrations_is_true() -> None:
    assert f"{len(INTEGRATIONS)} integrations;" in TEXT


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
    for what in ("migration", "kind of form", "channel", "integration", "route", "public name"):
        assert re.search(rf"^## How to add an? {what}$", CONTRIBUTING, re.MULTILINE), what
    assert "\n$ .ci/run quick\n" in CONTRIBUTING


def test_the_security_policy_says_which_versions_and_how_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[:2] == [
        "Supported versions",
        "Report a vulnerability",
    ]
