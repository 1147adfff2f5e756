"""One version, a changelog that knows it, and public names that change only where the changelog says so."""

from __future__ import annotations

from importlib import metadata

import pytest

import handraise
from handraise.backends.sql_files import load_migrations
from scripts.release import changelog, surface

TEXT = changelog.CHANGELOG.read_text(encoding="utf-8")
VERSION = handraise.__version__


def test_the_version_stands_in_one_place_and_the_changelog_has_a_section_for_it() -> None:
    assert changelog.version_faults(TEXT) == []
    assert changelog.version_faults(TEXT.replace(f"[{VERSION}]", "[0.0.9]")) == [
        f"the changelog has no section [{VERSION}]"
    ]
    assert metadata.version("handraise") == VERSION


def test_a_tag_is_released_only_with_its_own_version_a_date_and_nothing_left_over() -> None:
    good = f"## [Unreleased]\n\n## [{VERSION}] - 2026-11-15\n\n### Added\n\n- This.\n"
    assert changelog.tag_faults(f"v{VERSION}", good) == []
    assert changelog.tag_faults("v9.9.9", good) == [
        f"the tag is v9.9.9, and handraise.__version__ is {VERSION}"
    ]
    for bad in (good.replace("2026-11-15", "unreleased"), good.replace("\n\n## [", "\n- That.\n\n## [")):
        assert len(changelog.tag_faults(f"v{VERSION}", bad)) == 1


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_each_migration_states_the_oldest_release_that_works_on_it(engine: str) -> None:
    migrations = load_migrations(f"handraise.backends.{engine}")
    assert [each.number for each in migrations] == list(range(1, len(migrations) + 1)), "two have one number"
    for migration in migrations:
        first, _, _ = migration.sql.partition("\n")
        assert first.startswith("-- oldest release: "), f"{engine} {migration.name}: see CONTRIBUTING.md"
        assert migration.oldest_release in changelog.sections(TEXT), migration.name


def test_the_public_names_are_those_that_were_written_down() -> None:
    known = surface.FILE.read_text(encoding="utf-8").splitlines()
    changed = surface.changes(known, surface.surface())
    assert not str(changed), (
        f"Public names have changed:\n{changed}\nIf that is meant, write a line in CHANGELOG.md, then run: "
        "python -m scripts.release surface"
    )


@pytest.mark.only_proof_of(
    "no public name of the release before is gone or different without a line in the changelog"
)
def test_what_changed_since_the_release_before_is_in_the_changelog() -> None:
    assert changelog.change_faults(changelog.since_the_release_before()) == []


def test_every_module_with_public_names_is_looked_at() -> None:
    seen = {line.removeprefix("class ") for line in surface.surface()}
    for module in surface.PUBLIC_MODULES:
        assert any(line.startswith(f"{module}.") for line in seen), module


BEFORE = [
    "class handraise.Desk()",
    "handraise.Desk.ask(self, prompt: str) -> Any",
    "handraise.forms.read_reply(text: str) -> Reply",
]


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        (BEFORE, []),
        ([*BEFORE, "handraise.Desk.post(self) -> Question"], []),
        (BEFORE[:2], ["read_reply"]),
        ([BEFORE[0], "handraise.Desk.ask(self) -> Any", BEFORE[2]], ["Desk.ask"]),
    ],
)
def test_a_name_that_is_gone_or_different_is_to_be_told_of(after: list[str], broken: list[str]) -> None:
    changed = surface.changes(BEFORE, after)
    assert changed.broken == broken
    silent = f"## [{VERSION}] - unreleased\n\n- Something else.\n"
    assert len(changelog.change_faults(changed, silent)) == len(broken)
    told = silent + "".join(f"- `{name}(…)` is different.\n" for name in broken)
    assert changelog.change_faults(changed, told) == []
