"""What is made up until somebody publishes is replaced by one command, and is never released."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import handraise
from scripts.release import identity
from scripts.release.identity import Identity

OURS = Identity("Acme/raise", "Ann Example", "conduct@acme.example.org")


def test_one_command_replaces_it_everywhere(tmp_path: Path) -> None:
    names = identity.made_up_files()
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(identity.ROOT / name, tmp_path / name)
    for line in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *line], cwd=tmp_path, check=True)  # noqa: S607 -- as in any shell
    assert {line.split()[0] for line in identity.placeholder_faults(tmp_path)} == {*names}
    assert identity.fill_files(OURS, tmp_path) == []
    assert identity.placeholder_faults(tmp_path) == []
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Source"] == "https://github.com/Acme/raise"
    assert project["urls"]["Documentation"] == "https://acme.github.io/raise/"
    assert project["authors"] == [{"name": "Ann Example"}]
    package = json.loads((tmp_path / "clients/typescript/package.json").read_text())
    assert package["repository"]["url"] == "git+https://github.com/Acme/raise.git"
    assert yaml.safe_load((tmp_path / "CITATION.cff").read_text())["authors"] == [{"name": "Ann Example"}]
    assert "conduct@acme.example.org" in (tmp_path / "CODE_OF_CONDUCT.md").read_text()
    assert "uses: Acme/raise/deploy/" in (tmp_path / "docs/how-to/gate-a-deployment.md").read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        Identity("raise", "Ann", "ann@example.org"),
        Identity("a/b", 'Ann"', "ann@example.org"),
        Identity("a/b", "Ann", "ann"),
    ],
)
def test_what_cannot_be_published_changes_nothing(wrong: Identity, tmp_path: Path) -> None:
    assert len(identity.fill_files(wrong, tmp_path)) == 1


def test_the_citation_names_this_version() -> None:
    cited = yaml.safe_load((identity.ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (handraise.__version__, "Apache-2.0")
