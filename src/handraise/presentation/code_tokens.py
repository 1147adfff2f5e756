"""Texts in a programming language, in pieces that a page can colour.

Agents choose these texts, so the time must grow with their length only. Each pattern is tried once at each place, and
either fails after one character or takes all that it has read: what is opened and never closed goes to the end. The
lexers of Pygments do not promise this: some need seconds for a few thousand characters that somebody chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple, TypeAlias, get_args

from handraise.presentation.code_language import LONGEST_COLOURED, Language

TokenKind: TypeAlias = Literal[
    "plain", "comment", "string", "number", "keyword", "name", "gone", "new", "meta"
]

TOKEN_KINDS: tuple[TokenKind, ...] = get_args(TokenKind)

_MOST_TOKENS = 10_000
"""After so many pieces, the rest is one piece: each becomes an element of a page."""


class Token(NamedTuple):
    """A piece of a text."""

    kind: TokenKind
    text: str


_WORD = r"(?P<word>[A-Za-z_][\w]*+)"
_NUMBER = r"(?P<number>\b(?:0[xXbBoO][\da-fA-F_]++|\d[\d_]*+(?:\.\d++)?+(?:[eE][+-]?\d++)?+))"
_HASH = r"#[^\n]*+"
_SLASHES = r"//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)"
_DOUBLE = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_DOUBLE_LINES = r'"(?:[^"\\]|\\(?s:.))*+"?'
_SINGLE_LINES = r"'[^']*+'?"
_BACKTICK = r"`(?:[^`\\]|\\(?s:.))*+`?"
_TRIPLE = r'"""(?s:.*?)(?:"""|\Z)|' + r"'''(?s:.*?)(?:'''|\Z)"
_TAGS = (
    r"(?P<comment><!--(?s:.*?)(?:-->|\Z))|(?P<meta><[!?][^>]*+>?)"
    r"|(?P<keyword></?[A-Za-z][\w:.-]*+)"
    r"|(?P<name>(?<=[\s\"'])[A-Za-z_:@][\w:.-]*+(?==))"
    r"|(?P<string>(?<==)(?:\"[^\"]*+\"?|'[^']*+'?))"
    r"|(?P<number>&[#\w]{1,32}+;)"
)


def _code(comments: str, strings: str, more: str = "") -> str:
    return "|".join(
        part for part in (more, f"(?P<comment>{comments})", f"(?P<string>{strings})", _NUMBER, _WORD) if part
    )


_PATTERNS: dict[Language, str] = {
    "bash": _code(
        r"(?:^|(?<=[\s;]))#[^\n]*+",
        f"{_DOUBLE_LINES}|{_SINGLE_LINES}",
        r"(?P<name>\$(?:\w++|\{[^}\n]{0,200}+\}?|[@*#?$!-]))|(?P<meta>(?<![\w-])--?[A-Za-z][\w-]*+)",
    ),
    "css": _code(
        r"/\*(?s:.*?)(?:\*/|\Z)",
        f"{_DOUBLE}|{_SINGLE}",
        r"(?P<name>(?<![\w-])[\w-]++(?=\s{0,20}+:))|(?P<meta>@[\w-]++)",
    ),
    "diff": (r"(?P<meta>^(?:diff |index |@@|---|\+\+\+)[^\n]*+)|(?P<new>^\+[^\n]*+)|(?P<gone>^-[^\n]*+)"),
    "dockerfile": _code(
        r"^\s{0,20}+#[^\n]*+", f"{_DOUBLE}|{_SINGLE}", r"(?P<name>\$(?:\w++|\{[^}\n]{0,200}+\}?))"
    ),
    "go": _code(_SLASHES, f"{_DOUBLE}|{_SINGLE}|`[^`]*+`?"),
    "html": _TAGS,
    "ini": r"(?P<comment>^\s{0,20}+[;#][^\n]*+)|(?P<keyword>^\[[^\]\n]*+\]?)|(?P<name>^[\w.-]++(?=\s{0,20}+[=:]))",
    "java": _code(_SLASHES, f"{_DOUBLE}|{_SINGLE}", r"(?P<meta>@\w++|^#\w++)"),
    "javascript": _code(_SLASHES, f"{_DOUBLE}|{_SINGLE}|{_BACKTICK}"),
    "json": r'(?P<quoted>"(?:[^"\\\n]|\\.)*+"?)(?P<colon>\s{0,20}+:)?|' + _NUMBER + "|" + _WORD,
    "python": _code(_HASH, f"{_TRIPLE}|{_DOUBLE}|{_SINGLE}", r"(?P<meta>^\s{0,80}+@[\w.]++)"),
    "rust": _code(_SLASHES, _DOUBLE, r"(?P<meta>#!?\[[^\]\n]*+\]?)|(?P<name>\b\w++!)"),
    "sql": _code(r"--[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)", f"{_SINGLE_LINES}|{_DOUBLE}", r"(?P<name>[:$@]\w++)"),
    "terraform": _code(f"{_HASH}|{_SLASHES}", _DOUBLE, r"(?P<name>(?<![\w-])[\w-]++(?=\s{0,40}+=(?!=)))"),
    "toml": _code(
        _HASH,
        f"{_TRIPLE}|{_DOUBLE}|'[^'\\n]*+'?",
        r"(?P<keyword>^\[[^\]\n]*+\]{0,2}+)|(?P<name>^[\w.-]++(?=\s{0,20}+=))",
    ),
    "xml": _TAGS,
    "yaml": _code(
        r"(?:^|(?<=\s))#[^\n]*+",
        f"{_DOUBLE}|'[^'\\n]*+'?",
        r"(?P<name>(?:^|(?<=\s))[\w./-]++(?=:(?:\s|\Z)))|(?P<meta>(?:^|(?<=\s))[&*!][\w!/.-]++|^---$)",
    ),
}
_WORDS: dict[Language, str] = {
    "bash": "if then else elif fi for while until do done case esac in function return exit export local set unset "
    "source sudo cd rm mv cp kill true false",
    "css": "important",
    "dockerfile": "FROM AS RUN CMD COPY ADD ENV ARG ENTRYPOINT WORKDIR EXPOSE USER VOLUME LABEL SHELL HEALTHCHECK",
    "go": "break case chan const continue default defer else fallthrough for func go goto if import interface map package "
    "range return select struct switch type var nil true false error string int bool byte",
    "java": "abstract boolean break byte case catch char class const continue default do double else enum extends final "
    "finally float for fun if implements import instanceof int interface long namespace new null override package "
    "private protected public return short static struct super switch this throw throws try using val var void while "
    "true false string",
    "javascript": "as async await break case catch class const continue debugger default delete do else enum export extends "
    "false finally for from function if implements import in instanceof interface let new null of return static super "
    "switch this throw true try type typeof undefined var void while with yield",
    "json": "true false null",
    "python": "False None True and as assert async await break class continue def del elif else except finally for from "
    "global if import in is lambda match nonlocal not or pass raise return self try while with yield",
    "rust": "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move "
    "mut pub ref return self Self static struct super trait true type unsafe use where while",
    "sql": "add all alter analyze and any as asc begin between by cascade case cast check column commit constraint create "
    "cross current_date current_timestamp database default delete desc distinct drop else end except exists explain "
    "false fetch first for foreign from full function grant group having if in index inner insert interval into is join "
    "key last lateral left like limit not null nulls offset on or order outer over partition primary references "
    "restrict returning revoke right rollback schema select set table then to transaction trigger true truncate union "
    "unique update using vacuum values view when where with",
    "terraform": "data for_each if in locals module moved null output provider resource terraform true false variable",
    "toml": "true false",
    "yaml": "true false null yes no on off",
}


def code_tokens(text: str, language: Language | None) -> Iterator[Token]:
    """A text in pieces, which together are exactly the text."""
    if language is None or len(text) > LONGEST_COLOURED:
        yield Token("plain", text)
        return
    pattern, keywords = _compiled(language)
    folds = language in ("sql", "dockerfile")
    place = 0
    for count, found in enumerate(pattern.finditer(text)):
        if count == _MOST_TOKENS:
            break
        kind = found.lastgroup
        if kind == "word" and (found[0].casefold() if folds else found[0]) not in keywords:
            continue
        if not found[0]:
            continue
        if place < found.start():
            yield Token("plain", text[place : found.start()])
        place = found.end()
        if kind in ("quoted", "colon"):
            yield Token("name" if found["colon"] else "string", found["quoted"])
            if found["colon"]:
                yield Token("plain", found["colon"])
        else:
            yield Token(_KINDS.get(kind or "", "plain"), found[0])
    if place < len(text):
        yield Token("plain", text[place:])


_KINDS: dict[str, TokenKind] = {
    "word": "keyword",
    "comment": "comment",
    "string": "string",
    "number": "number",
    "keyword": "keyword",
    "name": "name",
    "gone": "gone",
    "new": "new",
    "meta": "meta",
}


@cache
def _compiled(language: Language) -> tuple[re.Pattern[str], frozenset[str]]:
    words = _WORDS.get(language, "")
    if language in ("sql", "dockerfile"):
        words = words.casefold()
    return re.compile(_PATTERNS[language], re.MULTILINE), frozenset(words.split())
