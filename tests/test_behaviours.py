"""The page of behaviours names only tests and things that exist."""

from __future__ import annotations

import ast
import functools
import pydoc
import re
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

from support.source_trees import tree_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "behaviours.md"
FEWEST, MOST_LATER = 70, 10
NONE_YET = "none yet"


@dataclass(frozen=True)
class Row:
    """A behaviour of the specification, and how it is handled; the cells as the page has them."""

    id: str
    behaviour: str
    where: str
    how: str
    test: str

    @property
    def later(self) -> bool:
        return self.how.startswith("later: ")

    @property
    def places(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.where)

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.test)


def rows_of(text: str) -> list[Row]:
    """The rows of every table of behaviours; a table or row of another shape is an error."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    odd = [row for row in cells if len(row) != 5]
    assert odd == [], f"not five cells: {odd}"
    return [Row(*row) for row in cells if row[0] != "#" and not set("".join(row)) <= set("-: ")]


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


@functools.cache
def named_in(path: str) -> frozenset[str]:
    """The names of the tests in a file, in classes or not; none where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = tree_of(file)
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


def missing_tests(row: Row) -> list[str]:
    named = [test.partition("::") for test in row.tests]
    return [f"{path}::{name}" for path, _, name in named if name not in named_in(path)]


def missing_places(row: Row) -> list[str]:
    """What does not exist: a file of the repository, or a name in the package."""
    return [
        place
        for place in row.places
        if not ((ROOT / place).is_file() if "/" in place else is_in_package(place))
    ]


def is_in_package(name: str) -> bool:
    """Whether there is such a name, or such a field of a dataclass, which is nowhere else or may be None."""
    owner, _, last = f"handraise.{name}".rpartition(".")
    fields = getattr(pydoc.locate(owner), "__dataclass_fields__", ())
    return last in fields or pydoc.locate(f"{owner}.{last}") is not None


def test_every_test_that_a_row_names_exists() -> None:
    assert {row.id: missing for row in ROWS if (missing := missing_tests(row))} == {}
    assert [row.id for row in ROWS if not row.tests and not (row.later and row.test == NONE_YET)] == []


def test_everything_lives_where_its_row_says() -> None:
    assert {row.id: missing for row in ROWS if (missing := missing_places(row))} == {}
    assert [row.id for row in ROWS if not row.places and not (row.later and row.where == NONE_YET)] == []


def test_no_cell_is_empty_and_each_row_says_how() -> None:
    assert [row.id for row in ROWS if not all(astuple(row))] == []
    assert [row.id for row in ROWS if not re.match(r"same\b|instead: \S|later: \S", row.how)] == []


def test_enough_behaviours_are_proven_and_few_are_for_later() -> None:
    later = [row.id for row in ROWS if row.later]
    assert len(ROWS) - len(later) >= FEWEST
    assert len(later) <= MOST_LATER


def test_every_id_is_used_once_and_counts_within_its_document() -> None:
    doubled = [each for each, count in Counter(row.id for row in ROWS).items() if count > 1]
    assert doubled == []
    documents = Counter(row.id.partition("-")[0] for row in ROWS)
    assert list(documents) == ["S0", "S1", "S2", "S3"]
    assert [row.id for row in ROWS] == [
        f"{document}-{number}" for document, count in documents.items() for number in range(1, count + 1)
    ]


def test_a_page_that_names_what_does_not_exist_is_found_out() -> None:
    (row,) = rows_of(
        "| # | behaviour | where | how | test |\n|---|---|---|---|---|\n"
        "| S0-1 | Asks | `desks.LocalDesk.ask`, `desks.LocalDesk.aks`, `examples/none.py` | same |"
        " `tests/test_behaviours.py::test_nothing`, `tests/none.py::test_x` |"
    )
    assert missing_tests(row) == ["tests/test_behaviours.py::test_nothing", "tests/none.py::test_x"]
    assert missing_places(row) == ["desks.LocalDesk.aks", "examples/none.py"]
