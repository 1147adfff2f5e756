"""The pieces of Adaptive Cards that we use. What agents write goes into text runs, in which Teams looks for no Markdown.

Labels, titles of options and buttons are different: some clients read Markdown there. Only what no client could
take for markup goes there; the rest is in the text, and is referred to by number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from handraise.channels.message_texts import shortened
from handraise.channels.payloads import as_json
from handraise.model.visible import visible, visible_line
from handraise.presentation.markdown import Span
from handraise.presentation.markdown_chat import Line, chat_lines
from handraise.presentation.translation import gettext

Element: TypeAlias = dict[str, Any]
"""A piece of a card, as Teams takes it."""

VERSION = "1.5"
CARD = "application/vnd.microsoft.card.adaptive"
LARGEST = 26_000
"""The largest card in bytes. Teams takes 28 KB, counted in UTF-16, with everything around the card."""
MOST_BUTTONS = 6
"""How many buttons Teams shows in a row; it leaves out the rest."""
LABEL = 60
_FUNCTION = re.compile(r"(?<=\{)(?=\{\s*(?:DATE|TIME)\s*\()", re.IGNORECASE)
"""Finds the middle of what would begin a function: a card can write a date in the reader's language."""
_MARKUP = re.compile(
    r"[\\`*~\[\]<>{}|#@]|&[a-z#][a-z0-9]*;|://|www\.|(?<![a-z0-9])_|_(?![a-z0-9])", re.IGNORECASE
)
_BEGINNINGS = re.compile(r"\s*([-+:]|\d+[.)])")
_SPACES = re.compile(r"(?<=[ \u00a0]) |^ ", re.MULTILINE)


def words(text: str, **style: Any) -> list[Element]:
    """Some words on one or several lines, exactly as they are."""
    return [
        {"type": "TextRun", "text": part, **style} for part in _FUNCTION.split(visible(text)) if part
    ] or [{"type": "TextRun", "text": " ", **style}]


def _spaced(text: str, **style: Any) -> list[Element]:
    """Some words with every space: Teams would show several as one."""
    return [{**each, "text": _SPACES.sub("\u00a0", each["text"])} for each in words(text, **style)]


def name(text: str) -> list[Element]:
    """A name that somebody else gave, in its own type so that it cannot pass for our words."""
    return words(visible_line(text), fontType="Monospace")


def with_name(sentence: str, who: str, **style: Any) -> list[Element]:
    """A sentence of ours with a name in it."""
    before, _, after = sentence.partition("{name}")
    return [
        *(words(before, **style) if before else ()),
        *name(who),
        *(words(after, **style) if after else ()),
    ]


def line(*runs: Sequence[Element], **style: Any) -> Element:
    """A paragraph."""
    return {"type": "RichTextBlock", "inlines": [run for part in runs for run in part], **style}


def ours(text: str, **style: Any) -> Element:
    """A paragraph of our own words."""
    return line(words(text, **style))


def small(text: str) -> Element:
    """A paragraph of our own words that is less prominent."""
    return line(words(text, isSubtle=True), spacing="Small")


def theirs(*items: Element) -> Element:
    """What somebody else wrote, on its own background."""
    return {"type": "Container", "style": "emphasis", "items": list(items)}


def markdown(text: str, **style: Any) -> Element:
    """An agent's text with its Markdown, on its own background."""
    made = []
    for is_code, lines in groupby(chat_lines(text), key=lambda each: each.is_code):
        found = list(lines)
        if is_code:
            made.append(literal("\n".join(each.text for each in found), **style))
        elif shown := _without_edges(found):
            made.append(line(*_runs(shown, style)))
    return theirs(*(made or [line(words(" ", **style))]))


def literal(text: str, **style: Any) -> Element:
    """A text exactly as it is, every space included."""
    return line(_spaced(text, fontType="Monospace", **style), spacing="Small")


def button(title: str, verb: str, data: dict[str, Any], *, inputs: bool = False) -> Element:
    """A button that reports to us. None has a colour, so that nobody is nudged."""
    return {
        "type": "Action.Execute",
        "title": shortened(visible_line(title), LABEL),
        "verb": verb,
        "data": data,
        "associatedInputs": "auto" if inputs else "none",
    }


def link(url: str) -> Element:
    """A button that opens a page of ours."""
    return {"type": "Action.OpenUrl", "title": gettext("Open in the inbox"), "url": url}


def row(buttons: Sequence[Element]) -> Element:
    """A row of buttons."""
    return {"type": "ActionSet", "actions": list(buttons)}


def card(body: Sequence[Element], actions: Sequence[Element] = ()) -> Element:
    """A whole card."""
    made: Element = {"type": "AdaptiveCard", "version": VERSION, "body": list(body)}
    return made | ({"actions": list(actions)} if actions else {})


def is_plain(text: str) -> bool:
    """Whether a text is short, and no client could take anything in it for markup."""
    return (
        0 < len(text) <= LABEL
        and visible_line(text) == text
        and text == text.strip()
        and not _MARKUP.search(text)
        and not _BEGINNINGS.match(text)
    )


def _without_edges(lines: Sequence[Line]) -> Sequence[Line]:
    """Lines without the blank ones at both ends: there is space between paragraphs anyway."""
    full = [place for place, each in enumerate(lines) if each.spans]
    return lines[full[0] : full[-1] + 1] if full else ()


def _runs(lines: Sequence[Line], style: dict[str, Any]) -> Iterator[list[Element]]:
    """Lines of Markdown. Neighbours that look the same are one run, line breaks included."""
    spans = [
        span for place, each in enumerate(lines) for span in ((Span("\n"),) if place else ()) + each.spans
    ]
    for look, same in groupby(spans, key=_look):
        text = "".join(span.text for span in same)
        yield _spaced(text, **style, **look)


def _look(span: Span) -> dict[str, Any]:
    looks: dict[str, tuple[bool, Any]] = {
        "weight": (span.strong, "Bolder"),
        "italic": (span.emphasis, True),
        "strikethrough": (span.struck, True),
        "fontType": (span.code, "Monospace"),
    }
    return {name: value for name, (has, value) in looks.items() if has}


def fits(made: Element) -> bool:
    """Whether Teams takes this as a card."""
    return len(as_json(made).decode().encode("utf-16-le")) <= LARGEST
