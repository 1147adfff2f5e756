"""The language and the time zone of the person who reads, and every sentence in that language.

Sentences are written in English where they are used: `gettext("Approve")`. Translations are in `catalog/`, one folder
for each language; CONTRIBUTING.md says how to change them. `use_locale` sets the language of all that is rendered
inside it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from gettext import GNUTranslations, NullTranslations
from importlib import resources
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from handraise.model.identities import Person

_CATALOG = resources.files(__package__) / "catalog"
_ZONE = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_WISH = re.compile(r"([A-Za-z]{2,3})(?:-[A-Za-z0-9-]*)?(?:;q=([01](?:\.[0-9]{0,3})?))?")


@dataclass(frozen=True, slots=True)
class Locale:
    """How a person reads: `language` is one of `languages()`, `time_zone` a name such as `Europe/Berlin`."""

    language: str = "en"
    time_zone: str = "UTC"


DEFAULT_LOCALE = Locale()
_current: ContextVar[Locale] = ContextVar("locale", default=DEFAULT_LOCALE)


@contextmanager
def use_locale(locale: Locale) -> Iterator[None]:
    """Render everything inside for somebody who reads like this."""
    token = _current.set(locale)
    try:
        yield
    finally:
        _current.reset(token)


def set_locale(locale: Locale) -> None:
    """Render everything from here on, in this task, for somebody who reads like this."""
    _current.set(locale)


def in_every_language(check: Callable[[], bool]) -> bool:
    """Whether something holds in every language: what people may do must not depend on their language."""
    zone = current_locale().time_zone
    return all(_in_language(Locale(language, zone), check) for language in languages())


def current_locale() -> Locale:
    """The language and time zone of the person for whom something is rendered now."""
    return _current.get()


def gettext(message: str) -> str:
    """A sentence in the language of the person who reads."""
    return _translations(_current.get().language).gettext(message) if message else ""


def ngettext(singular: str, plural: str, count: int) -> str:
    """A sentence about a number of things."""
    return _translations(_current.get().language).ngettext(singular, plural, count)


def pgettext(context: str, message: str) -> str:
    """A sentence or a word that other languages say in several ways; `context` says which one is meant."""
    return _translations(_current.get().language).pgettext(context, message)


def gettext_noop(message: str) -> str:
    """Mark a sentence for the catalogue; it is translated later, as in a table."""
    return message


def grouped(number: int) -> str:
    """A whole number with its digits in groups of three, as the language writes them."""
    return f"{number:,}".replace(",", pgettext("between the thousands of a number", ","))


@functools.cache
def languages() -> tuple[str, ...]:
    """The codes of all supported languages: English, and every folder of the catalogue."""
    return ("en", *sorted(each.name for each in _CATALOG.iterdir() if each.is_dir()))


def language_name(language: str) -> str:
    """The name of a language, in that language."""
    return _translations(language).pgettext("the name of this language", "English")


@functools.lru_cache(maxsize=200)
def best_language(*wishes: str | None) -> str:
    """The first supported language: each wish is a code such as `de-AT`, or a whole Accept-Language header."""
    for wish in wishes:
        for code in _codes(wish or ""):
            if code in languages():
                return code
    return "en"


def person_locale(person: Person, default: Locale) -> Locale:
    """How a person reads; `default` counts for what they did not choose."""
    zone = person.time_zone
    return Locale(
        best_language(person.language, default.language),
        zone if zone and find_time_zone(zone) else default.time_zone,
    )


def local_time(at: datetime) -> datetime:
    """An instant as the clock of the person who reads shows it."""
    return at.astimezone(find_time_zone(_current.get().time_zone) or UTC)


@functools.lru_cache(maxsize=1_000)
def find_time_zone(name: str) -> tzinfo | None:
    """The time zone of this name, or None if there is none."""
    try:
        return ZoneInfo(name) if _ZONE.fullmatch(name) else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _in_language(locale: Locale, check: Callable[[], bool]) -> bool:
    with use_locale(locale):
        return check()


def _codes(wish: str) -> list[str]:
    """The languages in an Accept-Language header, the most wanted first. Invalid parts are ignored."""
    parts = (_WISH.fullmatch(part.replace(" ", "")) for part in wish[:1_000].split(","))
    found = [(float(part[2] or 1), part[1].lower()) for part in parts if part]
    return [code for weight, code in sorted(found, key=lambda each: -each[0]) if weight > 0]


@functools.cache
def _translations(language: str) -> NullTranslations:
    if language == "en":
        return NullTranslations()
    with (_CATALOG / language / "LC_MESSAGES" / "handraise.mo").open("rb") as file:
        return GNUTranslations(file)
