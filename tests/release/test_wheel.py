"""What is in the wheel and in the source distribution."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from scripts.release import wheel


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
