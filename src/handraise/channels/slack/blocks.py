"""The pieces of Block Kit that we use. Whatever goes into them is shown as it is, never read as markup.

Nothing here is `mrkdwn`: in `rich_text` and `plain_text`, Slack looks for no mentions, links or formats, so that an
agent's words need no escaping and cannot get out of their place. Only invisible characters are made visible.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, TypeAlias

from handraise.channels.payloads import as_json
from handraise.model.visible import visible, visible_line
from handraise.presentation.markdown import Span
from handraise.presentation.markdown_chat import Line, chat_lines
from handraise.presentation.times import moment_text
from handraise.presentation.translation import gettext

Block: TypeAlias = dict[str, Any]
"""A piece of a message or a view, as Slack takes it."""

MOST_OPTIONS = 100
MOST_TICKS = 10
"""The most options of a menu, and of a group of boxes."""
LABEL = 75
_LOOSE = " \n\u200d"
"""What must not be left at an end: a joiner with nothing after it could join with our own words."""
_MOST_GROWTH = 2
"""How much more than its text an agent's Markdown may take; otherwise it is shown as it was written."""
LARGEST = 10_000
"""The largest blocks of a message, in bytes: Slack refuses somewhat larger ones, and does not say how large."""


def words(text: str, **style: bool) -> Block:
    """Some words on one or several lines."""
    return _piece(visible(text), style)


def words_in_line(text: str, **style: bool) -> Block:
    """Some words on one line, whatever is in them."""
    return _piece(visible_line(text), style)


def name(text: str) -> Block:
    """A name that somebody else gave, in its own box so that it cannot pass for our words."""
    return words_in_line(text, code=True)


def with_name(sentence: str, who: str) -> list[Block]:
    """A sentence of ours with a name in it."""
    before, _, after = sentence.partition("{name}")
    return [*([words(before)] if before else ()), name(who), *([words(after)] if after else ())]


def link(url: str, text: str) -> Block:
    """A link to a page of ours."""
    return {"type": "link", "url": url, "text": text}


def moment(at: datetime) -> Block:
    """An instant, which Slack shows in the time zone of the reader."""
    return {
        "type": "date",
        "timestamp": int(at.timestamp()),
        "format": gettext("{date_long} at {time}"),
        "fallback": moment_text(at),
    }


def line(*parts: Block) -> Block:
    """A paragraph of our own words."""
    return {"type": "rich_text_section", "elements": list(parts)}


def quote(*parts: Block) -> Block:
    """What somebody else wrote, with a bar beside it."""
    return {"type": "rich_text_quote", "elements": list(parts)}


def quoted_start(text: str, most: int, most_lines: int) -> tuple[Block, bool]:
    """An agent's text with its Markdown, or the beginning of it, with a bar beside it; and whether that is all.

    All of it is in one quote, code and tables too: what is in its own box is ours.
    """
    source = visible(text[: most + 1])
    shorter = cut_to_bytes(source, most)
    source = source if shorter is None else shorter
    lines = chat_lines(source)
    parts = list(_pieces(lines[:most_lines]))
    if size_of(parts) > _MOST_GROWTH * most:
        lines = tuple(Line((Span(each),)) for each in source.split("\n"))
        parts = list(_pieces(lines[:most_lines]))
    is_all = shorter is None and len(lines) <= most_lines
    return quote(*(parts or [words("")]), *(() if is_all else (words(" […]"),))), is_all


def literal(text: str) -> Block:
    """A text exactly as it is, in a box."""
    return {"type": "rich_text_preformatted", "elements": [words(text)]}


def numbered(items: Iterable[Sequence[Block]]) -> Block:
    """A numbered list of what somebody else wrote, with a bar beside it."""
    return {
        "type": "rich_text_list",
        "style": "ordered",
        "border": 1,
        "elements": [line(*item) for item in items],
    }


def rich(*parts: Block) -> Block:
    """A block of paragraphs, quotes, boxes and lists."""
    return {"type": "rich_text", "elements": list(parts)}


def small(text: str) -> Block:
    """A line of our own words in small type."""
    return {"type": "context", "elements": [plain(text, 2_000)]}


def plain(text: str, most: int) -> Block:
    """A short text on one line, cut if Slack would refuse it."""
    shown = shortened(text, most).strip()
    return {"type": "plain_text", "text": cut(shown, most) or "…", "emoji": False}


def shortened(text: str, most: int) -> str:
    """A text on one line with everything invisible shown, cut to so many characters."""
    # What is beyond is cut before it is examined: it may be very long.
    return cut(visible_line(text[: most + 1]), most)


def button(action: str, text: str, value: str, *, confirm: Block | None = None) -> Block:
    """A button. None has a colour, so that nobody is nudged."""
    made = {"type": "button", "action_id": action, "text": plain(text, LABEL), "value": value}
    return made | ({"confirm": confirm} if confirm else {})


def confirmation(title: str, text: str, yes: str) -> Block:
    """The confirmation that is asked for before something is sent."""
    return {
        "title": plain(title, 100),
        "text": plain(text, 300),
        "confirm": plain(yes, 30),
        "deny": plain(gettext("Go back"), 30),
    }


def actions(elements: Sequence[Block], block_id: str | None = None) -> Block:
    """A row of what can be pressed."""
    return {"type": "actions", "elements": list(elements), **({"block_id": block_id} if block_id else {})}


def cut(text: str, most: int) -> str:
    """The text, no longer than this even after Slack has escaped it, with a sign if something is missing."""
    if len(text) <= most and _length(text) <= most:
        return text
    text = text[:most]
    while (over := _length(text) - most) >= 0:
        text = text[: -max(1, over // 8)]
    return text.rstrip(_LOOSE) + "…"


def cut_to_bytes(text: str, most: int) -> str | None:
    """The part of a text that fits into so many bytes of a message, or None if all of it does."""
    if len(text) <= most and size_of(text) <= most:
        return None
    text = text[:most]
    while (over := size_of(text) - most) > 0:
        text = text[: -max(1, over // 8)]
    return text.rstrip(_LOOSE)


def escaped(text: str) -> str:
    """A text for the one place where Slack reads markup: what a notification shows."""
    return html.escape(text, quote=False)


def _pieces(lines: Sequence[Line]) -> Iterator[Block]:
    """Lines of Markdown. Neighbours that look the same are one piece, line breaks included."""
    spans = [
        span for place, line in enumerate(lines) for span in ((Span("\n"),) if place else ()) + line.spans
    ]
    for style, same in groupby(spans, key=_style):
        yield words("".join(span.text for span in same), **style)


def _style(span: Span) -> dict[str, bool]:
    looks = {"bold": span.strong, "italic": span.emphasis, "strike": span.struck, "code": span.code}
    return {name: True for name, has in looks.items() if has}


def _piece(text: str, style: dict[str, bool]) -> Block:
    return {"type": "text", "text": text or " ", **({"style": style} if style else {})}


def _length(text: str) -> int:
    """How long a text is for Slack, at most: escaped, and with a picture counted as two."""
    return len(escaped(text).encode("utf-16-le", errors="replace")) // 2


def size_of(value: Any) -> int:
    """How many bytes this takes in a message, at most: as JSON, and escaped."""
    return len(escaped(as_json(value).decode()).encode())


def fits(blocks: Sequence[Block]) -> bool:
    """Whether Slack takes these as one message."""
    return size_of(blocks) <= LARGEST
