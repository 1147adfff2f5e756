"""What Discord takes, and what it makes of it: the limits of messages and forms, and its Markdown as its clients read it.

Written from Discord's own documentation and OpenAPI description, and from how its clients parse; not from our code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SUPPRESS_EMBEDS, EPHEMERAL, COMPONENTS_V2 = 1 << 2, 1 << 6, 1 << 15
OURS = ("https://desk.example/", "https://handraise.example.com/")
_ROW, _BUTTON, _SELECT, _TEXT, _SHOWN, _LABEL = 1, 2, 3, 4, 10, 18


class Invalid(Exception):
    """Discord would answer with 400 and the code 50035."""


@dataclass
class Seen:
    """A text as people see it, and everything in it that is more than text: its kind, and what it is about."""

    text: str = ""
    marks: list[tuple[str, str]] = field(default_factory=list)
    looks: list[tuple[str, str]] = field(default_factory=list)
    """What only looks different, behind a bar: an agent's Markdown."""
    is_quoted: bool = False

    def mark(self, kind: str, what: str) -> None:
        (self.looks if self.is_quoted and kind in _LOOKS else self.marks).append((kind, what))

    @property
    def suspicious(self) -> list[tuple[str, str]]:
        """What no message of ours has in it."""
        harmless = ("quote", "strong", "code block")
        return [
            mark
            for mark in self.marks
            if mark[0] not in harmless and not (mark[0] == "link" and mark[1].startswith(OURS))
        ]


_LOOKS = ("em", "strike", "code")
_AT_LINE_START = [
    ("quote", re.compile(r">>> ?()"), ""),
    ("quote", re.compile(r"> ()"), "│ "),
    ("heading", re.compile(r"#{1,3} +()(?=\S)"), ""),
    ("small type", re.compile(r"-# +()(?=\S)"), ""),
    ("list", re.compile(r" *([-*]|[0-9]+\.) +()"), "• "),
]
_INLINE: list[tuple[str, re.Pattern[str]]] = [
    ("escape", re.compile(r"\\([^0-9A-Za-z\s])")),
    ("code block", re.compile(r"```(?:[a-z0-9_+\-.#]+?\n)?\n*([^\n][\s\S]*?)\n*```", re.IGNORECASE)),
    ("code", re.compile(r"(`+)([\s\S]*?[^`])\1(?!`)")),
    ("link", re.compile(r"<((?:https?|steam|discord)://[^ >]+|mailto:[^ >]+|tel:[^ >]+)>")),
    ("link", re.compile(r"((?:https?|steam)://[^\s<]+[^<.,:;\"')\]\s])")),
    ("masked link", re.compile(r"\[((?:[^\[\]\\]|\\.)+)\]\(\s*<?[^)\s]*>?[^)]*\)")),
    ("mention", re.compile(r"<(@[!&]?[0-9]+)>")),
    ("mention", re.compile(r"(@everyone|@here)")),
    ("room", re.compile(r"<(#[0-9]+)>")),
    ("command", re.compile(r"<(/[-\w ]+:[0-9]+)>")),
    ("guide", re.compile(r"<(id:[a-z-]+)>")),
    ("picture", re.compile(r"<(a?:\w{2,32}:[0-9]+)>")),
    ("picture", re.compile(r":(\w+):")),
    ("moment", re.compile(r"<(t:-?[0-9]{1,17}(?::[a-zA-Z])?)>")),
    ("strong", re.compile(r"\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)")),
    ("underline", re.compile(r"__((?:\\[\s\S]|[^\\])+?)__(?!_)")),
    ("em", re.compile(r"\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s*\\]|\*\*)|[^\s*\\])+?)\*(?!\*)")),
    ("em", re.compile(r"_((?:__|\\[\s\S]|[^\\_])+?)_(?!\w)")),
    ("strike", re.compile(r"~~((?:\\[\s\S]|[^\\])+?)~~(?!_)")),
    ("spoiler", re.compile(r"\|\|((?:\\[\s\S]|[^\\])+?)\|\|")),
]
_PLAIN = re.compile(r"[^\\`<hs\[@:*_~|\n]+")
"""Where no rule begins."""
_NESTED = ("strong", "underline", "em", "strike", "spoiler", "masked link")


def seen(content: str) -> Seen:
    """What people see of a content."""
    found = Seen()
    _read(content, found, starts=True)
    return found


def _read(text: str, into: Seen, *, starts: bool) -> None:
    at = 0
    while at < len(text):
        if starts:
            for kind, rule, shown in _AT_LINE_START:
                if match := rule.match(text, at):
                    into.marks.append((kind, text[at : at + 40]))
                    into.is_quoted = into.is_quoted or kind == "quote"
                    into.text += shown
                    at = match.end()
                    break
            else:
                starts = False
            # Behind a bar, a line begins anew.
            if at < len(text) and starts:
                continue
            starts = False
            continue
        if plain := _PLAIN.match(text, at):
            into.text += plain[0]
            at = plain.end()
            continue
        for kind, rule in _INLINE:
            if match := rule.match(text, at):
                inside = match[match.lastindex or 0]
                at = match.end()
                if kind == "escape":
                    into.text += inside
                    break
                into.mark(kind, inside)
                if kind in _NESTED:
                    _read(inside, into, starts=False)
                else:
                    into.text += inside
                break
        else:
            into.text += text[at]
            starts = text[at] == "\n"
            into.is_quoted = into.is_quoted and not starts
            at += 1


def elements_in(components: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Everything that can be pressed in a message."""
    for row in components:
        yield from row["components"]


def as_text(content: str, components: Sequence[Mapping[str, Any]] = ()) -> str:
    """A message as somebody would write it down; what is more than text in it, and not ours, is marked as such."""
    found = seen(content)
    lines = [found.text, *(f"⟦{kind}: {what}⟧" for kind, what in found.suspicious)]
    for row in components:
        shown = []
        for each in row["components"]:
            if each["type"] == _BUTTON:
                shown.append(f"[ {each['label']} ]")
            else:
                options = " / ".join(option["label"] for option in each["options"])
                shown.append(f"[ {each['placeholder']}: {options} ▾ ]")
        lines.append(" ".join(shown))
    return "\n".join(lines)


def modal_text(modal: Mapping[str, Any]) -> str:
    """A form as somebody would write it down."""
    lines = [modal["title"]]
    for each in modal["components"]:
        if each["type"] == _SHOWN:
            found = seen(each["content"])
            lines += [found.text, *(f"⟦{kind}: {what}⟧" for kind, what in found.suspicious)]
            continue
        inner = each["component"]
        if inner["type"] == _SELECT:
            filled = " ".join(
                f"({'x' if one.get('default') else ' '}) {one['label']}" for one in inner["options"]
            )
        else:
            filled = inner.get("value", "…")
        hint = f" ({each['description']})" if "description" in each else ""
        lines.append(f"{each['label']}{hint}: {filled}")
    return "\n".join(lines)


def check_message(body: Mapping[str, Any], *, flags: int) -> None:
    """Raise `Invalid` where Discord would refuse a message, and `AssertionError` where we would."""
    content = body.get("content")
    _want(isinstance(content, str) and content.strip() != "", "Cannot send an empty message")
    _text(content, 2_000, "content")
    assert body.get("allowed_mentions") == {"parse": []}, "somebody would be called"
    assert "embeds" not in body, "people can turn them off"
    given = body.get("flags", 0)
    assert given & SUPPRESS_EMBEDS, "addresses would become pictures"
    _want(not given & ~flags, f"flags {given}")
    components = body.get("components", [])
    _want(isinstance(components, list) and len(components) <= 5, "at most 5 rows")
    for row in components:
        _keys(row, {"type", "components"})
        _want(row["type"] == _ROW and 1 <= len(row["components"]) <= 5, "a row has 1 to 5 elements")
        kinds = {each["type"] for each in row["components"]}
        _want(kinds == {_BUTTON} or (kinds == {_SELECT} and len(row["components"]) == 1), f"a row of {kinds}")
        for each in row["components"]:
            if each["type"] == _BUTTON:
                _keys(each, {"type", "style", "label", "custom_id"})
                _want(each["style"] in (1, 2, 3, 4), "style")
                assert each["style"] == 2, "a button has a colour"
                _text(each["label"], 80, "label")
            else:
                _select(each, {"type", "custom_id", "placeholder", "options"})
    _names(each["custom_id"] for each in elements_in(components))


def check_modal(modal: Mapping[str, Any]) -> None:
    """Raise `Invalid` where Discord would refuse a form."""
    _keys(modal, {"custom_id", "title", "components"})
    _names([modal["custom_id"]])
    _text(modal["title"], 45, "title")
    _want(1 <= len(modal["components"]) <= 5, "a form has 1 to 5 components")
    names = []
    for each in modal["components"]:
        if each["type"] == _SHOWN:
            _keys(each, {"type", "content"})
            _text(each["content"], 4_000, "content")
            continue
        _keys(each, {"type", "label", "description", "component"}, optional={"description"})
        _want(each["type"] == _LABEL, "only labels in a form")
        _text(each["label"], 45, "label")
        if "description" in each:
            _text(each["description"], 100, "description")
        inner = each["component"]
        names.append(inner["custom_id"])
        if inner["type"] == _SELECT:
            known = {"type", "custom_id", "options", "min_values", "max_values", "required"}
            _select(inner, known)
            _want(not inner["required"] or inner["min_values"] >= 1, "min_values")
            _want(
                sum(bool(one.get("default")) for one in inner["options"]) <= inner["max_values"], "defaults"
            )
        else:
            _keys(
                inner,
                {"type", "custom_id", "style", "required", "max_length", "value"},
                optional={"value"},
            )
            _want(inner["type"] == _TEXT and inner["style"] in (1, 2), "style")
            _want(1 <= inner["max_length"] <= 4_000, "max_length")
            if "value" in inner:
                _text(inner["value"], inner["max_length"], "value")
    _names(names)


def _select(each: Mapping[str, Any], known: set[str]) -> None:
    _keys(each, known)
    _want(each["type"] == _SELECT and 1 <= len(each["options"]) <= 25, "1 to 25 options")
    _want(0 <= each.get("min_values", 1) <= each.get("max_values", 1) <= len(each["options"]), "min_values")
    for option in each["options"]:
        _keys(option, {"label", "value", "description", "default"}, optional={"description", "default"})
        for name in ("label", "value", "description"):
            if name in option:
                _text(option[name], 100, name)
    values = [option["value"] for option in each["options"]]
    _want(len(set(values)) == len(values), "the same value twice")


def _names(names: Any) -> None:
    found = list(names)
    for each in found:
        _text(each, 100, "custom_id")
    _want(len(set(found)) == len(found), "the same custom_id twice")


def _keys(found: Mapping[str, Any], known: set[str], optional: set[str] | None = None) -> None:
    assert known - (optional or set()) <= found.keys() <= known, sorted(found)


def _text(text: Any, most: int, what: str) -> None:
    _want(isinstance(text, str) and text.strip() != "", f"{what} is required")
    # However Discord counts, it is not too long.
    _want(len(text.encode("utf-16-le")) // 2 <= most, f"{what} must be {most} or fewer in length")


def _want(fits: object, why: str) -> None:
    if not fits:
        raise Invalid(why)
