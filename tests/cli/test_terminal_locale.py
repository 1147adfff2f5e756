"""The language and the time zone of a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from handraise.cli.terminal_locale import terminal_locale
from handraise.presentation.translation import Locale

UTC = Path("/usr/share/zoneinfo/Etc/UTC")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "de_AT.UTF-8"}, "de"),
        ({"LANG": "de_DE@euro"}, "de"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_MESSAGES": "en_GB.UTF-8"}, "en"),
        ({"LANG": "en_GB.UTF-8", "HANDRAISE_LANGUAGE": "de"}, "de"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": ""}, "de"),
    ],
)
def test_the_language_is_that_of_the_environment(environment: dict[str, str], language: str) -> None:
    assert terminal_locale(environment, UTC).language == language


def test_the_time_zone_is_that_of_the_machine(tmp_path: Path) -> None:
    clock = tmp_path / "localtime"
    clock.symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert terminal_locale({}, clock) == Locale("en", "Europe/Berlin")
    assert terminal_locale({"TZ": ":America/Lima"}, clock).time_zone == "America/Lima"
    assert terminal_locale({"TZ": "nonsense"}, clock).time_zone == "UTC"
    assert terminal_locale({}, tmp_path / "none").time_zone == "UTC"
