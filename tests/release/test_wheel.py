"""What is in the wheel and in the source distribution."""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from scripts.release import wheel
from support.source_trees import tree_of


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return wheel.build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_sql_templates_static_files_and_types_and_nothing_else(
    built: tuple[Path, Path],
) -> None:
    assert wheel.wheel_faults(built[1]) == []


def test_the_source_distribution_has_what_it_is_built_and_tested_from(built: tuple[Path, Path]) -> None:
    assert wheel.source_faults(built[0]) == []


@pytest.mark.parametrize("lost", sorted(wheel.NEEDED.values()))
def test_a_wheel_without_one_of_these_is_refused(built: tuple[Path, Path], tmp_path: Path, lost: str) -> None:
    smaller = tmp_path / built[1].name
    with zipfile.ZipFile(built[1]) as whole, zipfile.ZipFile(smaller, "w") as less:
        for name in whole.namelist():
            if not name.startswith(lost):
                less.writestr(name, whole.read(name))
    assert any(f"there is no {lost}" in fault for fault in wheel.wheel_faults(smaller))


@pytest.mark.parametrize("more", ["tests/test_it.py", "chaos/__init__.py", "handraise/secrets.env"])
def test_a_wheel_with_more_than_the_package_is_refused(
    built: tuple[Path, Path], tmp_path: Path, more: str
) -> None:
    larger = tmp_path / built[1].name
    shutil.copy(built[1], larger)
    with zipfile.ZipFile(larger, "a") as opened:
        opened.writestr(more, "")
    assert len(wheel.wheel_faults(larger)) == 1


def test_pytest_finds_the_fixtures_in_the_wheel(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as opened:
        (name,) = [each for each in opened.namelist() if each.endswith("entry_points.txt")]
        text = opened.read(name).decode()
        assert "handraise/testing/plugin.py" in opened.namelist()
    assert "[pytest11]\nhandraise.testing.plugin = handraise.testing.plugin\n" in text


def test_the_description_of_the_wheel_leads_somewhere_from_anywhere(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as opened:
        (name,) = [each for each in opened.namelist() if each.endswith("METADATA")]
        text = opened.read(name).decode()
    assert "Description-Content-Type: text/markdown" in text
    assert {"Documentation", "Source", "Changelog", "Issues"} <= {
        *re.findall(r"^Project-URL: (\w+)", text, re.MULTILINE)
    }
    linked = re.findall(r'\]\(([^)#]+)[^)]*\)|<img src="([^"]+)"', text)
    relative = [each for pair in linked for each in pair if each and not each.startswith("https://")]
    assert len(linked) > 10
    assert relative == []


def imported(file: Path) -> set[str]:
    """The packages that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found - {*sys.stdlib_module_names, "handraise"}


def test_every_package_that_is_imported_is_declared() -> None:
    """What comes along by way of others today may stay away tomorrow."""
    project = tomllib.loads((wheel.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(each for extra in extras.values() for each in extra)]
    # Pydantic pins its other half.
    declared = {"pydantic-core"} | {
        re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;~! ]", line)[0]).lower() for line in lines
    }
    named = metadata.packages_distributions()
    undeclared = {
        f"{file.relative_to(wheel.PACKAGE)}: {package}"
        for file in wheel.PACKAGE.rglob("*.py")
        if "integrations" not in file.parts
        for package in imported(file)
        if not {re.sub(r"[-_.]+", "-", each).lower() for each in named.get(package, [package])} & declared
    }
    assert undeclared == set()
