"""Names that a newcomer can guess: one basename for one thing, no gerunds as modules, no metaphors.

The rule is in CONTRIBUTING.md. A name that must be an exception is listed here with its reason.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from support.source_trees import tree_of

SOURCE = Path(__file__).parent.parent / "src" / "handraise"
TESTS = Path(__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.stem not in ("__init__", "__main__"))

SHARED = {
    "a port, what implements it in each backend, and its contract": {
        "backend",
        "bus",
        "calendars",
        "channel",
        "clock",
        "directory",
        "files",
        "ledger",
        "passkeys",
        "policies",
        "provisioned",
        "saved_views",
        "standing_answers",
        "outbox",
        "store",
    },
    "the same part of two SQL backends": {
        "connections",
        "durability",
        "executor",
        "search_index",
        "workspace_tables",
    },
    "the same part of each chat service": {
        "api",
        "interactions",
        "messages",
        "modals",
        "references",
        "signatures",
    },
    "the side of a protocol that calls somebody else's agent": {"client"},
    "a public module, and the module of the model behind it": {
        "callbacks",
        "errors",
        "events",
        "forms",
        "outcomes",
        "questions",
    },
}
"""Why modules may have one basename, and which."""

GERUNDS = {"blocking", "drafting", "fuzzing", "monitoring", "polling", "routing", "standing", "working"}
"""Words of the industry that end in -ing."""

METAPHORS = {
    *(
        "bell",
        "chore",
        "crier",
        "door",
        "doorkeeper",
        "doorway",
        "ear",
        "errand",
        "house",
        "lane",
        "nursery",
        "seat",
        "sight",
    ),
    *("sights", "walls"),
}


def test_modules_share_a_basename_only_if_they_are_the_same_part() -> None:
    by_name = defaultdict(list)
    for path in MODULES:
        by_name[path.stem].append(str(path.relative_to(SOURCE)))
    allowed = set().union(*SHARED.values())
    assert {name: paths for name, paths in by_name.items() if len(paths) > 1 and name not in allowed} == {}
    assert [name for name in sorted(allowed) if len(by_name[name]) < 2] == []


def test_a_module_is_not_named_by_a_gerund() -> None:
    assert [
        str(path.relative_to(SOURCE))
        for path in MODULES
        if path.stem.endswith("ing") and path.stem not in GERUNDS
    ] == []


def test_a_test_module_is_named_after_what_it_tests_and_not_by_a_gerund() -> None:
    words = {path: path.stem.removeprefix("test_").split("_") for path in sorted(TESTS.rglob("test_*.py"))}
    found = {path: {word for word in its if word.endswith("ing")} - GERUNDS for path, its in words.items()}
    assert [str(path.relative_to(TESTS)) for path, gerunds in found.items() if gerunds] == []


def words_of(name: str) -> set[str]:
    """The words of an identifier."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("folder", ["src", "tests", "support", "chaos", "benchmarks", "scripts"])
def test_no_name_is_a_metaphor(folder: str) -> None:
    found = set()
    for path in sorted((SOURCE.parents[1] / folder).rglob("*.py")):
        names = {path.stem}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(node.name)
        names = {name for name in names if not name.startswith("test_")}
        found |= {f"{path.stem}: {name}" for name in names if words_of(name) & METAPHORS}
    assert found == set()
