"""Pages lead somewhere, and name nothing that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.doc_pages import DOCS, ROOT, TEXTS, name_of, prose_of
from tests.test_behaviours import named_in


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`", prose_of(page))
    assert [f"{path}::{name}" for path, name in named if name not in named_in(path)] == []


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{name_of(page)}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors_of(goal), f"{name_of(page)}: {target} names no heading"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_map() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", prose_of(index))}
    assert [name_of(page) for page in DOCS.rglob("*.md") if page != index and page not in linked] == []


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    places = {"/" + "work", str(Path.home()), *([str(ROOT)] if len(ROOT.parts) > 2 else [])}
    # What follows `://` is somebody's name, not a folder.
    here = re.compile(
        "|".join(rf"(?<![\w.~-])(?<!:/){re.escape(place)}(?![\w-])" for place in sorted(places))
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if here.search(line)
    ]
    assert found == []


def files() -> Iterator[Path]:
    """What belongs to the repository, with or without git at hand."""
    made = {
        ".git",
        ".venv",
        ".cache",
        ".hypothesis",
        ".import_linter_cache",
        "__pycache__",
        "dist",
        "build",
        "node_modules",
    }
    for path in ROOT.iterdir():
        if path.name in made or (path / "pyvenv.cfg").exists():
            continue
        inside = path.rglob("*") if path.is_dir() else [path]
        yield from (each for each in inside if each.is_file() and not made & set(each.parts))
