"""Markdown as lines, for chats and notifications: each service shows the spans of a line in its own way.

Nothing here is a link, a mention or a box: whatever a service makes of a line stays inside the quotation that it shows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never

from handraise.model.visible import visible
from handraise.presentation.markdown import (
    Block,
    Blocks,
    CodeBlock,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    parse,
)
from handraise.presentation.markdown_text import aligned_table

TABLE_WIDTH = 44
"""How many fixed-width letters a phone shows in a line."""
_RULE = "─" * 12
_MOST_GROWTH = 2
_MOST_SPANS = 200
"""A text that needs more room is shown as it was written; so is a text that has only marks."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line. If it is code or part of a table, it `is_code`: it needs fixed-width letters."""

    spans: Spans = ()
    is_code: bool = False

    @property
    def text(self) -> str:
        """The text without any style."""
        return "".join(span.text for span in self.spans)


@functools.lru_cache(maxsize=64)
def chat_lines(text: str, *, table_width: int = TABLE_WIDTH) -> tuple[Line, ...]:
    """An agent's text as lines that a service breaks itself. A wider table is shown row by row."""
    lines = [_merged(line) for line in _lines(parse(text), table_width)]
    length = sum(len(line.text) + 1 for line in lines)
    spans = sum(len(line.spans) for line in lines)
    is_empty = not any(line.text.strip() for line in lines)
    if is_empty or length > _MOST_GROWTH * len(text) + 100 or spans > _MOST_SPANS:
        return tuple(Line((Span(line),) if line else ()) for line in visible(text).split("\n"))
    return tuple(lines)


def chat_text(text: str, *, table_width: int = 0) -> str:
    """The same for a place without styles: code keeps its marks, and so does struck-out text.

    Without fixed-width letters, a table is shown row by row.
    """
    return "\n".join(map(_plain, chat_lines(text, table_width=table_width)))


def _lines(blocks: Blocks, table_width: int, *, tight: bool = False) -> Iterator[Line]:
    for place, block in enumerate(blocks):
        if place and not tight:
            yield Line()
        yield from _block(block, table_width)


def _block(block: Block, table_width: int) -> Iterator[Line]:
    match block:
        case Paragraph(lines=lines):
            yield from map(Line, lines)
        case CodeBlock(lines=lines):
            yield from (Line((Span(line, code=True),) if line else (), is_code=True) for line in lines)
        case Quote(blocks=blocks):
            yield from (_prefixed("> ", line) for line in _lines(blocks, table_width - 2))
        case ListBlock():
            yield from _list(block, table_width)
        case Table():
            yield from _table(block, table_width)
        case Rule():
            yield Line((Span(_RULE),))
        case _:
            assert_never(block)


def _list(block: ListBlock, table_width: int) -> Iterator[Line]:
    for place, item in enumerate(block.items):
        if place and not block.tight:
            yield Line()
        mark = "• " if block.start is None else f"{block.start + place}. "
        inside = list(_lines(item, table_width - len(mark), tight=block.tight)) or [Line()]
        yield _prefixed(mark, inside[0])
        yield from (_prefixed(" " * len(mark), line) if line.spans else line for line in inside[1:])


def _table(table: Table, table_width: int) -> Iterator[Line]:
    aligned = aligned_table(table, table_width)
    if aligned is not None:
        yield from (Line((Span(line, code=True),), is_code=True) for line in aligned)
        return
    for place, row in enumerate(table.rows):
        if place:
            yield Line()
        for name, cell in zip(table.head, row, strict=True):
            head = tuple(replace(span, strong=True) for span in name)
            yield Line((*head, Span(": ", strong=True), *cell))
    if not table.rows:
        yield Line(tuple(span for name in table.head for span in (*name, Span("  "))))


def _prefixed(mark: str, line: Line) -> Line:
    return replace(line, spans=(Span(mark), *line.spans))


def _merged(line: Line) -> Line:
    """A line in which neighbours that look the same are one. An address looks like the text around it."""
    looks = groupby(line.spans, key=lambda span: replace(span, text="", address=None))
    return replace(line, spans=tuple(replace(look, text=_text(same)) for look, same in looks))


def _text(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)


def _plain(line: Line) -> str:
    return "".join(_marked(span, is_code=line.is_code) for span in line.spans).rstrip()


def _marked(span: Span, *, is_code: bool) -> str:
    text = f"`{span.text}`" if span.code and not is_code else span.text
    return f"~~{text}~~" if span.struck else text
