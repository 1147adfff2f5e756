"""What was wrong, for people: every sentence that an answer can be refused with is in the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from gettext import NullTranslations
from pathlib import Path

import pytest

from handraise.model import json_values, people, validation
from handraise.presentation import translation
from handraise.presentation.error_text import error_text
from handraise.presentation.translation import Locale, use_locale

DEVELOPERS = ("is not JSON", "is not a JSON number", "has a key that", "is not a usable pattern")
"""What only a program can do wrong."""


class Marked(NullTranslations):
    """A language in which every sentence stands in brackets."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every translation is the English sentence in brackets."""
    monkeypatch.setattr(translation, "_translations", lambda _language: Marked())
    with use_locale(Locale("de")):
        yield


def sentences(module: str | None) -> Iterator[str]:
    """The messages of all problems and refusals in a module, with a number in place of each value."""
    assert module is not None
    for node in ast.walk(ast.parse(Path(module).read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ("Problem", "PermissionDenied") and len(node.args) > 1:
            match node.args[1]:
                case ast.Constant(value=str(text)):
                    yield text
                case ast.JoinedStr(values=values):
                    yield "".join(
                        str(each.value) if isinstance(each, ast.Constant) else "7" for each in values
                    )


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("module", [validation, json_values], ids=lambda module: module.__name__)
def test_every_reason_against_an_answer_is_known(module: object) -> None:
    found = [each for each in sentences(getattr(module, "__file__", None)) if not _is_for_developers(each)]
    # "expected {wanted}, got …" is of two sentences.
    unknown = [each for each in found if error_text(each) == each and each != "expected 7, got 7"]
    assert found
    assert unknown == []


@pytest.mark.usefixtures("marked")
def test_every_reason_against_weak_evidence_is_known() -> None:
    for why in people._WHY_WEAK.values():  # noqa: SLF001 -- these are the sentences
        assert error_text(why) == f"⟦{why}⟧"


@pytest.mark.usefixtures("marked")
def test_a_part_that_is_a_sentence_of_ours_is_translated_too() -> None:
    said = error_text("'ann' may not do this: the asker cannot answer.")
    assert said == "⟦'ann' may not do this: ⟦the asker cannot answer⟧.⟧"
    assert error_text("expected a number, got a text") == "⟦expected a number, got ⟦a text⟧⟧"
    assert error_text("must be at least {least}, is 3") == "⟦must be at least {least}, is 3⟧"


@pytest.mark.usefixtures("marked")
def test_what_is_not_known_stays_as_it_is() -> None:
    assert error_text("lorem ipsum {dolor}") == "lorem ipsum {dolor}"


def test_english_stays_english() -> None:
    assert error_text("expected a number, got a text") == "expected a number, got a text"


def _is_for_developers(text: str) -> bool:
    return any(each in text for each in DEVELOPERS)
