"""The catalogue of sentences is complete, and what the program reads is what people translated."""

from __future__ import annotations

import re

import pytest

from handraise.presentation.translation import languages
from scripts import catalog

TRANSLATED = sorted(set(languages()) - {"en"})
_PLACEHOLDER = re.compile(r"\{[a-z_]*\}|%\([a-z_]+\)s|%%")


@pytest.mark.only_proof_of("nothing is left untranslated")
@pytest.mark.parametrize("language", TRANSLATED)
def test_every_sentence_in_the_code_is_translated(language: str) -> None:
    """If it fails: `python -m scripts.catalog`, translate what it prints, and run it again."""
    known = catalog.read(language)
    assert {each.id for each in known} == {each.id for each in catalog.updated(language)}
    assert catalog.missing(known) == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_files_that_programs_read_say_what_people_translated(language: str) -> None:
    known = catalog.read(language)
    assert catalog.po_file(language).with_suffix(".mo").read_bytes() == catalog.as_mo(known)
    assert catalog.script_file(language).read_bytes() == catalog.as_script(known)


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_has_the_placeholders_of_its_sentence(language: str) -> None:
    wrong = []
    for each in catalog.read(language):
        if not each.id:
            continue
        ids = each.id if isinstance(each.id, tuple | list) else (each.id,)
        strings = [*each.string] if isinstance(each.string, tuple | list) else [each.string]
        wanted = set(_PLACEHOLDER.findall(ids[-1]))
        # A singular may leave its number out: "one more" and "{count} more".
        found = [set(_PLACEHOLDER.findall(text or "")) for text in strings]
        if found[-1] != wanted or not all(one <= wanted for one in found):
            wrong.append(each.id)
    assert wrong == []
