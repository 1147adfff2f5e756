"""Texts with their formats beside them, as Telegram takes them. Nothing in a text is ever read as markup.

What agents and people wrote is in `code` and `pre`: there Telegram looks for no links, mentions or commands
either. Only invisible characters are made visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from handraise.model.visible import visible, visible_line
from handraise.presentation.markdown_chat import TABLE_WIDTH, chat_text

LONGEST = 4_096
"""The longest text of a message. Telegram counts characters; we count what is never fewer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of one kind."""

    text: str = field(repr=False)
    entity: dict[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its formats."""

    text: str = field(repr=False)
    entities: list[dict[str, Any]] = field(repr=False)

    @property
    def fits(self) -> bool:
        """Whether it goes into one message."""
        return length_of(self.text) <= LONGEST

    @property
    def body(self) -> dict[str, Any]:
        """The same as a part of a request."""
        return {
            "text": self.text,
            "entities": self.entities,
            "link_preview_options": {"is_disabled": True},
        }


def ours(text: str) -> Piece:
    """Words of our own."""
    return Piece(text)


def bold(text: str) -> Piece:
    """Words of our own that matter."""
    return Piece(text, {"type": "bold"})


def code(text: str) -> Piece:
    """What somebody else wrote, on one line."""
    return Piece(visible_line(text).strip() or "…", {"type": "code"})


def box(text: str) -> Piece:
    """What somebody else wrote, line by line in a box."""
    shown = visible(text)
    return Piece(shown if shown.strip() else "…", {"type": "pre"})


def markdown(text: str) -> Piece:
    """An agent's text with its Markdown as lines in a box.

    It has no other formats: outside of a box, Telegram makes links and mentions of whatever looks like one.
    """
    return box(chat_text(text, table_width=TABLE_WIDTH))


def link(url: str, text: str) -> Piece:
    """A link to a page of ours; written out if Telegram would refuse it, as it refuses every bare name."""
    host = urlsplit(url).hostname or ""
    if "." in host or ":" in host:
        return Piece(text, {"type": "text_link", "url": url})
    return Piece(f"{text}: {url} ")


def mention(user: int, name: str) -> Piece:
    """Somebody by their name, who is notified."""
    shown = cut(visible_line(name).strip(), 40) or "…"
    return Piece(shown, {"type": "text_mention", "user": {"id": user, "is_bot": False, "first_name": shown}})


def compose(pieces: Iterable[Piece]) -> Text:
    """The pieces one after the other, with what Telegram must know about each."""
    text, entities, place = "", [], 0
    for piece in pieces:
        length = length_of(piece.text)
        if piece.entity is not None and length:
            entities.append({**piece.entity, "offset": place, "length": length})
        text, place = text + piece.text, place + length
    return Text(text.rstrip(), entities)


def length_of(text: str) -> int:
    """How long a text is in the units in which Telegram counts places."""
    return len(text.encode("utf-16-le", errors="replace")) // 2


def cut(text: str, most: int) -> str:
    """The text, no longer than this, with a sign if something is missing."""
    if length_of(text) <= most:
        return text
    text = text[: most - 1]
    while length_of(text) >= most:
        text = text[:-1]
    # A joiner with nothing after it could join with our own words.
    return text.rstrip(" \n\u200d") + "…"
