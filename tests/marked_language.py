"""A language in which every sentence of ours stands in brackets, to find what is not in the catalogue."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from gettext import NullTranslations
from typing import Any

import pytest

from handraise.presentation import translation
from handraise.presentation.translation import Locale, find_time_zone, use_locale

LATIN = frozenset(
    [
        "lorem",
        "ipsum",
        "dolor",
        "amet",
        "consectetur",
        "adipiscing",
        "elit",
        "tempor",
        "incididunt",
        "labore",
        "magna",
        "aliqua",
        "enim",
        "minim",
    ]
)
"""All that agents and people write in these tests: no word of it can be taken for one of ours."""
NAMES = frozenset({"handraise", "https", "example", "com", "org", "utc", "re"})
"""What is the same in every language."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_READ = frozenset(
    {"text", "title", "label", "placeholder", "hint", "content", "description", "errorMessage", "body"}
    | {"message", "input_field_placeholder", "submit", "close", "deny", "confirm", "format", "fallback"}
)
"""The keys under which chat services take what people read."""


class Marked(NullTranslations):
    """The language."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"⟦{msgid1 if n == 1 else msgid2}⟧"

    def pgettext(self, context: str, message: str) -> str:
        assert context
        return f"⟦{message}⟧"


def mark_german(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put that language in the place of German, for those who read German."""
    marked, english = Marked(), NullTranslations()
    monkeypatch.setattr(
        translation, "_translations", lambda language: english if language == "en" else marked
    )


@contextmanager
def marked_language(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Render everything inside in that language."""
    mark_german(monkeypatch)
    with use_locale(Locale("de")):
        yield


def unmarked(texts: Iterable[str], names: frozenset[str] = frozenset()) -> list[str]:
    """The words of texts that follow each other which stand in no brackets and which these tests did not write.

    `names` are other words that are the same in every language.
    """
    found: list[str] = []
    depth = 0
    for text in texts:
        bare = []
        for each in text:
            depth += (each == "⟦") - (each == "⟧")
            bare.append(each if depth == 0 else " ")
        kept = " ".join(each for each in "".join(bare).split() if find_time_zone(each) is None)
        found += [each.casefold() for each in _WORD.findall(kept)]
    return [each for each in found if each not in LATIN | NAMES | names]


def texts_in(body: Any, key: str = "") -> Iterator[str]:
    """What people read of a message to a chat service, in its order."""
    match body:
        case str() if key in _READ:
            yield body
        case dict():
            for name, each in body.items():
                yield from texts_in(each, name)
        case list() | tuple():
            for each in body:
                yield from texts_in(each, key)


def text_of_html(page: str) -> str:
    """What people read of a page."""
    without = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", " ", without))
