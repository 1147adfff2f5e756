"""Which names of people, agents and tools could be taken for another one."""

from __future__ import annotations

import unicodedata

from handraise.model.visible import visible_line

_ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


def misleading(name: str) -> str | None:
    """Why a name could be taken for another one, or None."""
    if name != name.strip() or "  " in name:
        return "begins or ends with a blank, or has two in a row"
    if name.isascii() and name.isprintable():
        return None
    if visible_line(name) != name:
        return "has a character that cannot be seen"
    if unicodedata.normalize("NFKC", name) != name:
        return f"is not in the usual form of Unicode: write {unicodedata.normalize('NFKC', name)!r}"
    if mixes_alphabets(name):
        return "mixes letters of alphabets that look alike"
    return None


def misleading_tool(name: str) -> str | None:
    """Why the name of a tool could be taken for another one, or None. It has no blanks."""
    return "has a blank" if any(map(str.isspace, name)) else misleading(name)


def mixes_alphabets(name: str) -> bool:
    """Whether a name mixes alphabets whose letters look alike, as a misleading name does."""
    return len(alphabets_of(name)) > 1


def alphabets_of(name: str) -> frozenset[str]:
    """The alphabets in a name whose letters look like letters of other alphabets."""
    found = (unicodedata.name(each, "").split(" ", 1)[0] for each in name if each.isalpha())
    return _ALIKE.intersection(found)
