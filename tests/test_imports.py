"""Who may import whom, outside of `src`: lint-imports checks what is inside."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.source_trees import tree_of

ROOT = Path(__file__).parent.parent
NEVER = {
    "scripts": {"tests"},
    "benchmarks": {"tests"},
    "chaos": {"tests", "scripts", "benchmarks"},
    "support": {"tests", "scripts", "benchmarks", "chaos"},
    "examples": {"tests", "scripts", "benchmarks", "chaos", "support"},
}


def packages_in(file: Path) -> set[str]:
    """The top-level packages that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("folder", NEVER)
def test_a_folder_does_not_import(folder: str) -> None:
    imports = {file: packages_in(file) & NEVER[folder] for file in sorted((ROOT / folder).rglob("*.py"))}
    assert len(imports) > 3
    assert {str(file.relative_to(ROOT)): found for file, found in imports.items() if found} == {}
