"""What the demo shows at its end is what the pages show, which tests run."""

from __future__ import annotations

import pytest

from handraise.cli.demo_programs import FOLDER, FRAMEWORKS, Framework
from scripts.demo_programs import PAGES, program_of


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.name)
def test_the_program_of_a_framework_is_that_of_its_page(framework: Framework) -> None:
    assert framework.program == program_of(framework.name), "run: python -m scripts.demo_programs"
    assert "scripted" not in framework.program
    if framework.file.endswith(".py"):
        compile(framework.program, framework.file, "exec")


def test_each_program_has_its_framework() -> None:
    names = sorted(each.name for each in FRAMEWORKS)
    assert names == sorted(PAGES) == sorted(path.stem for path in FOLDER.iterdir())
