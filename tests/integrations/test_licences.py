"""What comes along with each extra of a framework is listed with its licence."""

from __future__ import annotations

import functools

import pytest

from scripts.release import licences

HERE = functools.cache(licences.installed)
ON_PAGE = licences.on_page(licences.PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("part", sorted(licences.FOREIGN))
def test_the_page_says_what_is_installed(part: str) -> None:
    here = HERE()
    brought = {name: licence for name, licence in here[part].items() if name not in here[licences.CORE]}
    assert ON_PAGE[part] == brought, "run: python -m scripts.release licences"
