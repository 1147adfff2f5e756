"""The documentation site builds without a warning, and what is wrong on a page fails the build."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from scripts.site import PROJECT, ROOT, Broken, build

MAP = "# Handraise\n\n## Tutorial: learn it\n\n- [One](one.md)\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this repository."""
    folder = tmp_path_factory.mktemp("site")
    build(work=folder / "work", site=folder / "site")
    return folder / "site"


@pytest.mark.slow(
    "builds the whole site; test_links.py has in the gate that every link and picture leads somewhere"
)
def test_every_page_is_on_the_site_and_can_be_searched_for(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    searched = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    found = {item["location"].partition("#")[0] for item in searched}
    for page in [*pages, *PROJECT.values()]:
        place = "" if page == "index.md" else f"{page.removesuffix('.md')}/"
        assert (site / place / "index.html").exists(), page
        assert place in found, page


@pytest.mark.slow("builds the whole site; a part of the map that is new changes it, which is rare")
def test_the_parts_of_the_map_are_those_of_the_site(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    tabs = [part.split("</a>")[0].split(">")[-1].strip() for part in home.split("md-tabs__link")[1:]]
    parts = ["Tutorial", "How-to", "Integrations", "Reference", "Explanation", "Decisions"]
    assert tabs == ["Home", *parts, "Project"]


@pytest.mark.slow("builds a site for each mistake")
@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("[two](two.md)", "page does not exist"),
        ("[one](one.md#nothing)", "nothing"),
        ("[one](#nothing)", "nothing"),
        ("[a file](../LICENSE.txt)", "LICENSE.txt leads nowhere"),
        ("![a picture](images/none.png)", "none.png leads nowhere"),
        ('<img src="https://example.com/pixel.png">', "is fetched from somebody else"),
        ("A list:\n- a\n- b", "GitHub has {'li': 2}"),
    ],
)
def test_what_is_wrong_on_a_page_is_named(small: Path, page: str, wrong: str) -> None:
    (small / "docs" / "one.md").write_text(f"# One\n\n{page}\n", encoding="utf-8")
    with pytest.raises(Broken) as broken:
        build(small, small / "work", small / "site")
    assert wrong in str(broken.value)


@pytest.mark.slow("builds a site of its own")
def test_what_a_page_shows_of_the_repository_is_a_page_too(small: Path) -> None:
    (small / "program.py").write_text("print('well')\n", encoding="utf-8")
    (small / "CHANGELOG.md").write_text("# Changes\n\n[One](docs/one.md#one)\n", encoding="utf-8")
    (small / "docs" / "one.md").write_text("# One\n\n[It](../program.py)\n", encoding="utf-8")
    build(small, small / "work", small / "site")
    assert "well" in (small / "site" / "files" / "program.py" / "index.html").read_text(encoding="utf-8")
    assert 'href="../../one/#one"' in (
        small / "site" / PROJECT["CHANGELOG.md"][:-3] / "index.html"
    ).read_text(encoding="utf-8")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with two pages."""
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    (tmp_path / "docs" / "index.md").write_text(MAP, encoding="utf-8")
    return tmp_path
