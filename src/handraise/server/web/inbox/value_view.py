"""Values as people read them: nested tables instead of JSON, and differences if there is a before and an after.

Everything here may be shown as it is: invisible characters were made visible.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from handraise.model.argument_order import reading_order
from handraise.model.json_values import Json, canonical_json
from handraise.model.lookalike_names import alphabets_of
from handraise.model.visible import visible, visible_line
from handraise.presentation.code_language import (
    LONGEST_COLOURED,
    Language,
    declared_language,
    detected_language,
)
from handraise.presentation.code_tokens import Token, code_tokens
from handraise.presentation.translation import gettext
from handraise.server.web.inbox.diff_rows import DiffLine, DiffRow, diff_rows

_PAIRS = (("before", "after"), ("old", "new"))
_Pairs: TypeAlias = tuple[tuple[str, str], ...]
_MOST_LINES = 300
_MOST_EQUALS = 800
_MOST_DIFFERENCES = 10
"""Larger texts are shown one after the other: the time to compare lines grows with the equal lines, and an
agent chooses them."""
_MANY_COLUMNS = 6
_CODE = frozenset(
    [
        "sql",
        "query",
        "statement",
        "command",
        "cmd",
        "code",
        "script",
        "shell",
        "diff",
        "patch",
        "regex",
        "pattern",
        "expression",
        "path",
        "file",
        "url",
    ]
)
"""Names of arguments that a program reads."""
_PROSE = frozenset(
    [
        "body",
        "message",
        "text",
        "description",
        "comment",
        "note",
        "summary",
        "reason",
        "subject",
        "title",
        "prompt",
    ]
)
"""Names of arguments that people read: their texts are shown as code only if they look like it."""


@dataclass(frozen=True, slots=True)
class Plain:
    """One value."""

    text: str
    quoted: bool = False
    """Whether it is a text: the text `yes` is not the same as yes."""
    code: bool = False
    """Whether it is a text that a program reads, such as SQL."""
    language: Language | None = None
    """The language in which it is coloured."""
    kind: Literal["plain"] = "plain"

    @property
    def is_long(self) -> bool:
        """Whether it takes more than a line."""
        return "\n" in self.text

    @property
    def tokens(self) -> Sequence[Token]:
        """The text in pieces, each with its colour."""
        return tuple(code_tokens(self.text, self.language))


@dataclass(frozen=True, slots=True)
class Rows:
    """Named values."""

    rows: tuple[tuple[str, ValueView], ...]
    doubtful: frozenset[str] = frozenset()
    """Names with letters of an alphabet that the others do not have: they may imitate another name."""
    kind: Literal["rows"] = "rows"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[ValueView, ...]
    kind: Literal["items"] = "items"


@dataclass(frozen=True, slots=True)
class Grid:
    """A list of things that all have the same few parts."""

    names: tuple[str, ...]
    lines: tuple[tuple[ValueView, ...], ...]
    doubtful: frozenset[str] = frozenset()
    kind: Literal["grid"] = "grid"


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed between two texts, line by line."""

    lines: tuple[DiffLine, ...]
    kind: Literal["difference"] = "difference"

    @property
    def rows(self) -> tuple[DiffRow, ...]:
        """The same with old and new lines next to each other."""
        return diff_rows(self.lines)


ValueView: TypeAlias = Plain | Rows | Items | Grid | Difference


def shown(value: Json) -> ValueView:
    """A value as people read it; a before and an after are shown as their difference."""
    return _shown(value, _PAIRS if _differences_in(value) <= _MOST_DIFFERENCES else ())


def arguments_of(value: Mapping[str, Json]) -> Rows:
    """The arguments of an action, each of them unchanged. Code is coloured, up to a length of all of it together."""
    rows: list[tuple[str, ValueView]] = []
    left = LONGEST_COLOURED
    for name, one in reading_order(value).items():
        made = _argument(name, one, value)
        if isinstance(made, Plain) and made.language is not None:
            left -= len(made.text)
            made = made if left >= 0 else replace(made, language=None)
        rows.append((visible_line(name), made))
    return Rows(tuple(rows), _doubtful(value))


def has_difference(value: Json) -> bool:
    """Whether a before and an after in this value are shown as their difference."""
    return 0 < _differences_in(value) <= _MOST_DIFFERENCES


def changed(before: Mapping[str, Json], after: Mapping[str, Json]) -> Rows:
    """What changed between two sets of arguments, and nothing else."""
    return Rows(
        tuple(
            (visible_line(name), difference(before.get(name), after.get(name)))
            for name in dict.fromkeys((*before, *after))
            if before.get(name) != after.get(name) or (name in before) != (name in after)
        ),
        _doubtful({**before, **after}),
    )


def difference(before: Json, after: Json) -> Difference:
    """What changed between two values."""
    old, new = _as_lines(before), _as_lines(after)
    if max(len(old), len(new)) > _MOST_LINES or _equals(old, new) > _MOST_EQUALS:
        return Difference(
            (*(DiffLine("gone", each) for each in old), *(DiffLine("new", each) for each in new))
        )
    lines: list[DiffLine] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(3):
        if lines or group[0][1] > 0:
            lines.append(DiffLine("skipped", gettext("lines that did not change")))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += (DiffLine("same", each) for each in old[i1:i2])
            else:
                lines += (DiffLine("gone", each) for each in old[i1:i2])
                lines += (DiffLine("new", each) for each in new[j1:j2])
    return Difference(tuple(lines) or (DiffLine("same", gettext("nothing changed")),))


def _argument(name: str, value: Json, around: Mapping[str, Json]) -> ValueView:
    made = _shown(value, ())
    if not isinstance(made, Plain) or not made.quoted:
        return made
    folded = name.casefold()
    declares = folded in _CODE or (made.is_long and folded not in _PROSE)
    language = declared_language(name, around) if declares else None
    language = language or detected_language(made.text)
    is_code = language is not None or folded in _CODE or (made.is_long and folded not in _PROSE)
    return replace(made, code=is_code, language=language)


def _equals(old: Sequence[str], new: Sequence[str]) -> int:
    """How many pairs of equal lines there are."""
    counts = Counter(new)
    return sum(counts[line] for line in old)


def _differences_in(value: Json) -> int:
    match value:
        case dict():
            own = any(old in value and new in value for old, new in _PAIRS)
            return own + sum(map(_differences_in, value.values()))
        case list() | tuple():
            return sum(map(_differences_in, value))
        case _:
            return 0


def _shown(value: Json, pairs: _Pairs) -> ValueView:
    match value:
        case dict():
            return _shown_mapping(value, pairs)
        case list() | tuple():
            return _shown_list(value, pairs)
        case "":
            return Plain(gettext("an empty text"))
        case str():
            return Plain(visible(value), quoted=True)
        case None:
            return Plain(gettext("nothing"))
        case bool():
            return Plain(gettext("yes") if value else gettext("no"))
        case _:
            return Plain(str(value))


def _shown_mapping(value: Mapping[str, Json], pairs: _Pairs) -> ValueView:
    rows: list[tuple[str, ValueView]] = []
    paired: set[str] = set()
    for old, new in pairs:
        if old in value and new in value and not paired:
            paired = {old, new}
            rows.append((f"{old} → {new}", difference(value[old], value[new])))
    if rows and paired == set(value):
        return rows[0][1]
    rows += ((visible_line(name), _shown(one, pairs)) for name, one in value.items() if name not in paired)
    return Rows(tuple(rows), _doubtful(value)) if rows else Plain(gettext("an empty object"))


def _shown_list(value: Sequence[Json], pairs: _Pairs) -> ValueView:
    if not value:
        return Plain(gettext("an empty list"))
    first = value[0]
    if len(value) > 1 and isinstance(first, dict) and 0 < len(first) <= _MANY_COLUMNS:
        names = tuple(first)
        flat = all(
            isinstance(each, dict)
            and set(each) == set(names)
            and not any(isinstance(one, (dict, list, tuple)) for one in each.values())
            for each in value
        )
        if flat:
            lines = tuple(tuple(_shown(each[name], ()) for name in names) for each in value)
            return Grid(tuple(map(visible_line, names)), lines, _doubtful(names))
    return Items(tuple(_shown(each, pairs) for each in value))


def _doubtful(names: Iterable[str]) -> frozenset[str]:
    """The names that mix alphabets, or use another alphabet than most of the names."""
    found = {name: alphabets_of(name) for name in names}
    counts = Counter(each for alphabets in found.values() for each in alphabets)
    usual = {max(counts, key=lambda each: (counts[each], each == "LATIN"))} if counts else set()
    return frozenset(visible_line(name) for name, alphabets in found.items() if alphabets - usual)


def _as_lines(value: Json) -> list[str]:
    match value:
        case None:
            return []
        case str():
            return visible(value).split("\n")
        case dict():
            return [
                f"{visible_line(name)}: {visible_line(one if isinstance(one, str) else canonical_json(one))}"
                for name, one in value.items()
            ]
        case list() | tuple():
            return [visible_line(one if isinstance(one, str) else canonical_json(one)) for one in value]
        case bool():
            return [gettext("yes") if value else gettext("no")]
        case _:
            return [str(value)]
