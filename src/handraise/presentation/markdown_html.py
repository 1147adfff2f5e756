"""Markdown as HTML, for pages and mails. Everything in it is escaped, and every tag is one of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import assert_never

from handraise.presentation.code_language import LONGEST_COLOURED, detected_language, named_language
from handraise.presentation.code_tokens import code_tokens
from handraise.presentation.markdown import (
    Block,
    Blocks,
    CodeBlock,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Side,
    Spans,
    Table,
    parse,
)

TAGS = frozenset(
    {"p", "br", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "a", "hr", "div", "span"}
    | {"table", "thead", "tbody", "tr", "th", "td"}
)
"""All possible tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlStyles:
    """The style of tags in one place: the attributes of each, as HTML.

    `sides` are those of a cell whose column is not on the left. Without `links`, an address stays a text.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    sides: Mapping[Side, str] = field(default_factory=dict)
    links: bool = True
    colours: bool = False
    """Whether code is in pieces with classes, such as `hl-keyword`."""


def to_html(text: str, styles: HtmlStyles) -> str:
    """An agent's text as HTML."""
    return "".join(_Writer(styles).blocks(parse(text)))


@dataclass(frozen=True, slots=True)
class _Writer:
    styles: HtmlStyles
    left: list[int] = field(default_factory=lambda: [LONGEST_COLOURED])
    """How many characters of code are still coloured."""

    def blocks(self, blocks: Blocks) -> Iterator[str]:
        for block in blocks:
            yield from self._block(block)

    def _block(self, block: Block) -> Iterator[str]:
        match block:
            case Paragraph(lines=lines):
                yield self._tag("p", self._lines(lines))
            case CodeBlock(lines=lines, language=language):
                yield self._tag("pre", ["<code>", *self._code("\n".join(lines), language), "\n</code>"])
            case Quote(blocks=blocks):
                yield self._tag("blockquote", self.blocks(blocks))
            case ListBlock(items=items, start=start):
                more = f' start="{start}"' if start not in (None, 1) else ""
                inside = (self._tag("li", self._item(item, tight=block.tight)) for item in items)
                yield self._tag("ul" if start is None else "ol", inside, more)
            case Table():
                yield self._table(block)
            case Rule():
                yield f"<hr{self._attributes('hr')}>"
            case _:
                assert_never(block)

    def _code(self, text: str, declared: str) -> Iterator[str]:
        language = (named_language(declared) or detected_language(text)) if self.styles.colours else None
        self.left[0] -= len(text) if language else 0
        for kind, piece in code_tokens(text, language if self.left[0] >= 0 else None):
            shown = escape(piece)
            yield shown if kind == "plain" else f'<span class="hl-{kind}">{shown}</span>'

    def _item(self, blocks: Blocks, *, tight: bool) -> Iterator[str]:
        for block in blocks:
            if tight and isinstance(block, Paragraph):
                yield from self._lines(block.lines)
            else:
                yield from self._block(block)

    def _table(self, table: Table) -> str:
        head = self._tag("thead", [self._row("th", table.head, table.sides)])
        body = self._tag("tbody", (self._row("td", row, table.sides) for row in table.rows))
        made = self._tag("table", [head, body if table.rows else ""])
        # An element around it, so that a wide table can scroll: a mail program cannot scroll the table itself.
        return self._tag("div", [made]) if "div" in self.styles.attributes else made

    def _row(self, tag: str, cells: Iterable[Spans], sides: Iterable[Side]) -> str:
        made = (
            self._tag(tag, self._spans(cell), self.styles.sides.get(side, ""))
            for cell, side in zip(cells, sides, strict=True)
        )
        return self._tag("tr", made)

    def _lines(self, lines: Iterable[Spans]) -> Iterator[str]:
        for place, line in enumerate(lines):
            if place:
                yield "<br>\n"
            yield from self._spans(line)

    def _spans(self, spans: Spans) -> Iterator[str]:
        for span in spans:
            made = escape(span.text)
            if span.address is not None and self.styles.links:
                made = f'<a href="{escape(span.address)}">{made}</a>'
            wanted = {"code": span.code, "s": span.struck, "em": span.emphasis, "strong": span.strong}
            for tag, has in wanted.items():
                made = self._tag(tag, [made]) if has else made
            yield made

    def _tag(self, tag: str, inside: Iterable[str], more: str = "") -> str:
        return f"<{tag}{self._attributes(tag)}{more}>{''.join(inside)}</{tag}>"

    def _attributes(self, tag: str) -> str:
        return self.styles.attributes.get(tag, "")
