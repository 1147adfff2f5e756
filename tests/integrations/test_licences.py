"""What comes along with each extra of a framework is listed with its licence."""

from __future__ import annotations

import functools

import pytest

from scripts.release import licences
from tests.integrations.cells import separate

HERE = functools.cache(licences.installed)
THERE = functools.cache(licences.installed_with)
ON_PAGE = licences.on_page(licences.PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", sorted(licences.FOREIGN))
def test_the_page_says_what_is_installed(part: str) -> None:
    assert ON_PAGE[part] == brought(HERE(), part), "run: python -m scripts.release licences"


@separate
@pytest.mark.parametrize("part", sorted(licences.ALONE))
def test_the_page_says_what_is_installed_for_frameworks_by_themselves(part: str) -> None:
    found = THERE(licences.ALONE[part])
    assert ON_PAGE[part] == brought(found, part), "run: python -m scripts.release licences"


def brought(installed: dict[str, dict[str, str]], part: str) -> dict[str, str]:
    """What a part brings besides the core."""
    core = installed[licences.CORE]
    return {name: licence for name, licence in installed[part].items() if name not in core}
