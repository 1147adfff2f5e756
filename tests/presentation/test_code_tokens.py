"""Code in colours: every piece of a text is there, in the right colour, and nobody can make it slow."""

from __future__ import annotations

import re
import time
from typing import get_args

import pytest

from handraise.model.json_values import Json
from handraise.presentation.code_language import (
    LONGEST_COLOURED,
    Language,
    declared_language,
    detected_language,
    named_language,
)
from handraise.presentation.code_tokens import Token, code_tokens
from tests.tiers import drawn

LANGUAGES: tuple[Language, ...] = get_args(Language)
FRAGMENTS = (
    *('"', "'", "`", "/*", "<!--", "<![", "<a b=", "&a", "--", "#", "$", "${", "\\", '"\\', "'''", '"""'),
    *(
        "a",
        "a-",
        "a ",
        " ",
        "\t",
        "\n",
        "\n ",
        "0",
        "0.",
        "0x",
        "1e",
        "-",
        "+",
        "@",
        "@a.",
        "a:",
        "a=",
        "[",
        "[a]",
        "{",
    ),
    *("- ", "&", "!a", "a!", "é", "\x00", '"a":', "FROM a\n", "<<A\n", "//", "=", "a b=", "#!"),
)


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("sql", "select 1 -- one", {"keyword": "select", "number": "1", "comment": "-- one"}),
        ("json", '{"a": "b", "n": null}', {"name": '"a"', "string": '"b"', "keyword": "null"}),
        ("python", "def f():\n  return 'x'", {"keyword": "def", "string": "'x'"}),
        ("bash", "rm -rf $HOME # all", {"keyword": "rm", "meta": "-rf", "name": "$HOME", "comment": "# all"}),
        ("diff", "@@ -1 +1 @@\n-a\n+b", {"meta": "@@ -1 +1 @@", "gone": "-a", "new": "+b"}),
        ("yaml", "name: 'x' # y", {"name": "name", "string": "'x'", "comment": "# y"}),
        ("html", "<p class='x'>a &amp; b</p>", {"keyword": "<p", "name": "class", "string": "'x'"}),
        ("toml", "[a]\nb = 1", {"keyword": "[a]", "name": "b", "number": "1"}),
        ("go", "func f() { /* x */ }", {"keyword": "func", "comment": "/* x */"}),
        ("terraform", 'resource "a" "b" {\n  size = 3\n}', {"keyword": "resource", "name": "size"}),
        ("dockerfile", "FROM a\nRUN b", {"keyword": "FROM"}),
    ],
)
def test_words_have_their_colours(language: Language, text: str, wanted: dict[str, str]) -> None:
    found: dict[str, str] = {}
    for token in code_tokens(text, language):
        found.setdefault(token.kind, token.text)
    assert {kind: found.get(kind) for kind in wanted} == wanted


@pytest.mark.parametrize("language", drawn(LANGUAGES, 3))
def test_hostile_texts_are_whole_and_take_time_by_their_length_only(language: Language) -> None:
    slowest = 0.0
    for fragment in FRAGMENTS:
        text = (fragment * LONGEST_COLOURED)[:LONGEST_COLOURED]
        began = time.process_time()
        tokens = list(code_tokens(text, language))
        slowest = max(slowest, time.process_time() - began)
        assert "".join(token.text for token in tokens) == text
        assert len(tokens) <= 25_000
    assert slowest < 2, "a twentieth of it is usual; a text whose time grows with its square takes minutes"


def test_long_texts_and_unknown_languages_have_one_colour() -> None:
    text = "select 1;" * 10_000
    assert list(code_tokens(text, "sql")) == [Token("plain", text)]
    assert list(code_tokens("select 1", None)) == [Token("plain", "select 1")]


@pytest.mark.parametrize(
    ("name", "around", "language"),
    [
        ("sql", {}, "sql"),
        ("Query", {"language": "PostgreSQL"}, "sql"),
        ("content", {"path": "a/b/main.rs"}, "rust"),
        ("content", {"filename": "C:\\Dockerfile"}, "dockerfile"),
        ("content", {"path": "notes.unknown", "language": 3}, None),
        ("path", {"path": "x.py"}, None),
        ("patch", {"path": "x.py"}, "diff"),
    ],
)
def test_a_language_is_declared_by_a_name_or_next_to_it(
    name: str, around: dict[str, Json], language: Language | None
) -> None:
    assert declared_language(name, around) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ('{"a": [1]}', "json"),
        ("{a: 1}", None),
        ("[" * 40_000, None),
        ("#!/bin/bash\nls", "bash"),
        ("#!/usr/bin/env python3\n", "python"),
        ("--- a\n+++ b\n@@ -1 +1 @@", "diff"),
        ("FROM a\n\nRUN b", "dockerfile"),
        ("<!DOCTYPE html><p>", "html"),
        ('<?xml version="1.0"?><a/>', "xml"),
        ("DELETE FROM a WHERE b", "sql"),
        ("def f():\n  pass", "python"),
        ("Dear Ann,\nselect what you like from this.", None),
        ("FROM " + "a" * 49_000, None),
    ],
)
def test_a_language_is_detected_by_how_a_text_begins(text: str, language: Language | None) -> None:
    began = time.process_time()
    assert detected_language(text) == language
    assert time.process_time() - began < 1


def test_the_names_of_languages_are_all_names() -> None:
    assert {named_language(each) for each in LANGUAGES} == set(LANGUAGES)
    assert all(re.fullmatch("[a-z]+", each) for each in LANGUAGES)
