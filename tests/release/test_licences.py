"""What comes along with the core and each extra is listed with its licence, and the core asks for nothing in return."""

from __future__ import annotations

import pytest

from scripts.release import licences

ON_PAGE = licences.on_page(licences.PAGE.read_text(encoding="utf-8"))
ELSEWHERE = {*licences.FOREIGN, *licences.ALONE}
HERE = {part: packages for part, packages in licences.installed().items() if part not in ELSEWHERE}


def test_the_page_has_the_core_and_every_extra() -> None:
    assert {*ON_PAGE} == {*licences.parts()}
    assert {*HERE} == {*licences.parts()} - ELSEWHERE, "an extra is not installed here"


@pytest.mark.parametrize("part", sorted(HERE))
def test_the_page_says_what_is_installed(part: str) -> None:
    brought = {
        name: licence
        for name, licence in HERE[part].items()
        if part == licences.CORE or name not in HERE[licences.CORE]
    }
    assert ON_PAGE[part] == brought, "run: python -m scripts.release licences"


def test_nothing_in_the_core_is_copyleft_and_everything_states_its_licence() -> None:
    assert {name: licence for name, licence in ON_PAGE["core"].items() if licences.is_copyleft(licence)} == {}
    assert [
        (part, name) for part, said in ON_PAGE.items() for name, what in said.items() if what == "not stated"
    ] == []


def test_what_is_copyleft_is_named_below() -> None:
    named = licences.PAGE.read_text(encoding="utf-8").partition("## Copyleft")[2]
    asking = {
        name for said in ON_PAGE.values() for name, licence in said.items() if licences.is_copyleft(licence)
    }
    assert asking == {
        line.removeprefix("- ").split()[0] for line in named.splitlines() if line.startswith("- ")
    }


@pytest.mark.parametrize(
    ("licence", "asks"),
    [
        ("MIT", False),
        ("BSD-3-Clause OR GPL-2.0-only", False),
        ("MPL-2.0 AND MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache-2.0 AND (LGPL-3.0-only OR MIT)", False),
        ("LGPL-3.0-only", True),
        ("GNU Affero General Public License v3", True),
    ],
)
def test_a_licence_is_copyleft_where_there_is_no_other_way(licence: str, asks: bool) -> None:  # noqa: FBT001 -- a case
    assert licences.is_copyleft(licence) is asks
