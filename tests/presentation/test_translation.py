"""The language and the time zone of the person who reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handraise.presentation.translation import (
    Locale,
    best_language,
    current_locale,
    find_time_zone,
    gettext,
    grouped,
    language_name,
    languages,
    local_time,
    use_locale,
)
from tests.marked_language import marked_language


@pytest.mark.parametrize(
    ("wishes", "language"),
    [
        ((), "en"),
        ((None, None), "en"),
        (("de",), "de"),
        (("de-AT",), "de"),
        (("DE-at",), "de"),
        ((None, "fr;q=0.9, de;q=0.8, en;q=0.5"), "de"),
        ((None, "en;q=0.5,de;q=0.8"), "de"),
        ((None, "en, de"), "en"),
        ((None, "de;q=0, en"), "en"),
        ((None, "fr", "de"), "de"),
        (("fr", "en", "de"), "en"),
        (("de", "en"), "de"),
        (("*", "../../etc/passwd", "de;q=x", "\x00", "d" * 10_000), "en"),
    ],
)
def test_the_first_wish_that_there_is_decides(wishes: tuple[str | None, ...], language: str) -> None:
    assert best_language(*wishes) == language


def test_a_locale_counts_inside_its_block_only() -> None:
    with use_locale(Locale("de", "Europe/Berlin")):
        assert current_locale() == Locale("de", "Europe/Berlin")
        with use_locale(Locale()):
            assert current_locale() == Locale()
        assert current_locale().language == "de"
    assert current_locale() == Locale()


def test_a_sentence_without_a_translation_stays_english() -> None:
    with use_locale(Locale("de")):
        assert gettext("no such sentence anywhere") == "no such sentence anywhere"
        assert gettext("") == ""


def test_every_folder_of_the_catalogue_is_a_language_that_says_its_own_name() -> None:
    assert {each: language_name(each) for each in languages()} == {"en": "English", "de": "Deutsch"}


def test_a_number_is_grouped_as_the_catalogue_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grouped(1_234_567) == "1,234,567"
    with use_locale(Locale("de")):
        assert grouped(1_234_567) == "1.234.567"
    with marked_language(monkeypatch):
        assert grouped(1_234_567) == "1⟦,⟧234⟦,⟧567"


def test_an_instant_is_shown_on_the_readers_clock() -> None:
    at = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    with use_locale(Locale("de", "Europe/Berlin")):
        assert local_time(at).isoformat() == "2026-07-01T14:00:00+02:00"
    assert local_time(at).isoformat() == "2026-07-01T12:00:00+00:00"


@pytest.mark.parametrize(
    "name", ["", "Nowhere/Town", "../../etc/passwd", "/etc/passwd", "a" * 100, "Europe/\x00"]
)
def test_a_time_zone_that_there_is_not_is_none_and_reads_no_file(name: str) -> None:
    assert find_time_zone(name) is None
    with use_locale(Locale(time_zone=name)):
        assert local_time(datetime(2026, 7, 1, tzinfo=UTC)).utcoffset().total_seconds() == 0  # type: ignore[union-attr]
