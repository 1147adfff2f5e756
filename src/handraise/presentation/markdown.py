"""The Markdown in an agent's text, read once for pages, mails and terminals.

Every text that `parse` returns can be shown as it is: invisible characters were made visible. No HTML is read, no
address is followed, and nothing is left out. If parsing would leave something out, the text is not read as
Markdown: it is shown as it was written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from handraise.model.errors import MissingExtra
from handraise.model.visible import visible, visible_line

try:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block.table import escapedSplit
    from markdown_it.token import Token
except ImportError as error:
    raise MissingExtra("markdown-it-py", "server") from error

Side = Literal["left", "right", "center"]

_DEEPEST = 10
_LINKED = ("https://", "http://", "mailto:")
_LANGUAGES = frozenset(
    (  # noqa: SIM905 -- a list would take a line for each
        "bash c c# c++ console cpp cs csharp css csv diff dockerfile go graphql haskell hcl html http ini java javascript js json "
        "jsonl jsx kotlin latex lua make makefile markdown md nginx perl php plaintext powershell protobuf py python r rb rs ruby "
        "rust scala sh shell sql swift terraform tex text toml ts tsx txt typescript xml yaml yml zsh"
    ).split()
)
"""Words after the marks of code that are not shown, because nobody needs them. Other words may be meant for people."""
_WORD_BEFORE, _WORD_AFTER = re.compile(r"\w[./]?$"), re.compile(r"[./]?\w")
_STYLES = {"strong": "strong", "em": "emphasis", "s": "struck"}


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line that looks the same throughout.

    After the text of a link comes a span with its address. A span has an `address` if a person may want to go there:
    on the web or to a mailbox. Its text says that address in full.
    """

    text: str
    strong: bool = False
    emphasis: bool = False
    struck: bool = False
    code: bool = False
    address: str | None = None


Spans: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines of text. Those of a heading are all strong: only we make headings."""

    lines: tuple[Spans, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines that a program reads, and the language that was declared, if any."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """What the agent quotes."""

    blocks: Blocks


@dataclass(frozen=True, slots=True)
class ListBlock:
    """A list, with numbers from `start` on or without any. A tight one has no space between its items."""

    items: tuple[Blocks, ...]
    start: int | None
    tight: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its head, its rows, and the side on which each of its columns stands."""

    head: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]
    sides: tuple[Side, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A line between two parts."""


Block: TypeAlias = Paragraph | CodeBlock | Quote | ListBlock | Table | Rule
Blocks: TypeAlias = tuple[Block, ...]


def parse(text: str) -> Blocks:
    """An agent's text as blocks."""
    seen = visible(text)
    tokens = _markdown().parse(seen)
    if _leaves_out(tokens, seen):
        return (Paragraph(tuple((Span(line),) for line in seen.split("\n"))),)
    return tuple(_blocks(iter(tokens)))


def one_line(text: str, longest: int | None = None) -> str:
    """An agent's text on one line, without the marks of its Markdown, or the beginning of it."""
    read = text if longest is None else text[: 4 * longest]
    blocks = (" ".join(block.split()) for block in _words(_markdown().parse(read)))
    line = visible_line(" · ".join(filter(None, blocks)))
    if longest is None or (len(line) <= longest and len(text) == len(read)):
        return line
    return line[: longest - 1].rstrip() + "…"


@functools.cache
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _DEEPEST})
    # Definitions of references are never shown, so they could hide something.
    return markdown.enable(["table", "strikethrough"]).disable(["reference"])


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.children is not None:
            literal = _inside_words(token.children)
            yield "".join(_word(each, place in literal) for place, each in enumerate(token.children))
        elif token.content:
            yield token.content


def _word(token: Token, literal: bool) -> str:  # noqa: FBT001 -- one of two kinds of mark
    if token.type.endswith("break"):
        return " "
    # Without its marks, struck-out text would say the opposite.
    return token.markup if literal or token.type in ("s_open", "s_close") else token.content


def _leaves_out(tokens: Sequence[Token], text: str) -> bool:
    """Whether parsing lost a part of the text: one nested too deeply, or one after a table's last column."""
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        return True
    lines = text.split("\n")
    columns, body = 0, False
    for token in tokens:
        if token.type == "thead_open":
            columns, body = 0, False
        elif token.type == "th_open":
            columns += 1
        elif token.type == "thead_close":
            body = True
        elif token.type == "tr_open" and body and token.map and _cells(lines[token.map[0]]) > columns:
            return True
    return False


def _cells(line: str) -> int:
    """How many cells a line of a table has."""
    cells = escapedSplit(line.lstrip("> ").strip())
    return len(cells) - (cells[:1] == [""]) - (len(cells) > 1 and cells[-1] == "")


def _blocks(tokens: Iterator[Token]) -> Iterator[Block]:
    """The blocks up to the end of their container, whose closing token is consumed too."""
    for token in tokens:
        match token.type:
            case "paragraph_open" | "heading_open":
                inline = next(tokens)
                next(tokens)
                yield Paragraph(_lines(inline, strong=token.type == "heading_open"))
            case "fence" | "code_block":
                info = visible_line(token.info.strip())
                lines = visible(token.content.removesuffix("\n")).split("\n")
                if info in _LANGUAGES:
                    yield CodeBlock(tuple(lines), info)
                else:
                    yield CodeBlock((*((f"({info})",) if info else ()), *lines))
            case "blockquote_open":
                yield Quote(tuple(_blocks(tokens)))
            case "bullet_list_open" | "ordered_list_open":
                yield _list(token, tokens)
            case "table_open":
                yield _table(tokens)
            case "hr":
                yield Rule()
            case _:
                return


def _list(opening: Token, tokens: Iterator[Token]) -> ListBlock:
    items: list[Blocks] = []
    tight = True
    for token in tokens:
        if token.type != "list_item_open":
            break
        inside = list(_item(tokens))
        tight = tight and all(
            each.hidden for each in inside if each.level == token.level + 1 and _is_text(each)
        )
        items.append(tuple(_blocks(iter(inside))))
    start = int(opening.attrs.get("start", 1)) if opening.type == "ordered_list_open" else None
    return ListBlock(tuple(items), start, tight)


def _item(tokens: Iterator[Token]) -> Iterator[Token]:
    depth = 1
    for token in tokens:
        depth += (token.type == "list_item_open") - (token.type == "list_item_close")
        if not depth:
            return
        yield token


def _is_text(token: Token) -> bool:
    return token.type == "paragraph_open"


def _table(tokens: Iterator[Token]) -> Table:
    rows: list[list[Spans]] = []
    sides: list[Side] = []
    for token in tokens:
        match token.type:
            case "tr_open":
                rows.append([])
            case "th_open" | "td_open":
                if len(rows) == 1:
                    sides.append(_side(token))
                lines = _lines(next(tokens))
                rows[-1].append(tuple(span for line in lines for span in line))
            case "table_close":
                break
            case _:
                pass
    head, *others = map(tuple, rows)
    return Table(head, tuple(others), tuple(sides))


def _side(cell: Token) -> Side:
    match str(cell.attrs.get("style", "")).removeprefix("text-align:"):
        case "right":
            return "right"
        case "center":
            return "center"
        case _:
            return "left"


def _lines(inline: Token, *, strong: bool = False) -> tuple[Spans, ...]:
    lines: list[list[Span]] = [[]]
    for each in _spans(inline.children or [], strong=strong):
        if each is None:
            lines.append([])
        elif each.text:
            lines[-1].append(replace(each, text=visible_line(each.text)))
    return tuple(map(tuple, lines))


def _spans(tokens: Sequence[Token], *, strong: bool) -> Iterator[Span | None]:
    """The spans of a text; None is the end of a line."""
    depths = {"strong": int(strong), "emphasis": 0, "struck": 0}
    literal = _inside_words(tokens)
    links: list[Token] = []
    for place, token in enumerate(tokens):
        look = Span("", depths["strong"] > 0, depths["emphasis"] > 0, depths["struck"] > 0)
        name, _, end = token.type.rpartition("_")
        match token.type:
            case "softbreak" | "hardbreak":
                yield None
            case "code_inline":
                yield replace(look, text=token.content, code=True)
            case "image":
                yield replace(look, text=f"Image: {token.content or 'without a description'}")
                yield from _address(token, "src", look)
            case "link_open":
                links.append(token)
            case "link_close":
                opening = links.pop()
                if opening.markup != "autolink":
                    yield from _address(opening, "href", look)
            case _ if name in _STYLES and place in literal:
                yield replace(look, text=token.markup)
            case _ if name in _STYLES:
                depths[_STYLES[name]] += 1 if end == "open" else -1
            case _:
                auto = links[-1] if links and links[-1].markup == "autolink" else None
                yield replace(look, text=token.content) if auto is None else _addressed(auto, "href", look)


def _inside_words(tokens: Sequence[Token]) -> set[int]:
    """The places of marks of emphasis that touch a word on their outer side.

    They may mean something else, as in `a*b*c` and `__init__.py`.
    """
    found: set[int] = set()
    opened: list[int] = []
    for place, token in enumerate(tokens):
        name, _, end = token.type.rpartition("_")
        if name not in _STYLES:
            continue
        if end == "open":
            opened.append(place)
            continue
        first = opened.pop()
        before = tokens[first - 1].content if first else ""
        after = tokens[place + 1].content if place + 1 < len(tokens) else ""
        if _WORD_BEFORE.search(before[-2:]) or _WORD_AFTER.match(after):
            found |= {first, place}
    return found


def _address(token: Token, name: str, look: Span) -> Iterator[Span]:
    """The full address of a link: only the address itself can be clicked, never another text."""
    title = str(token.attrs.get("title", ""))
    yield replace(look, text=" (")
    yield _addressed(token, name, look)
    yield replace(look, text=f" “{title}”)" if title else ")")


def _addressed(token: Token, name: str, look: Span) -> Span:
    address = visible_line(str(token.attrs.get(name, "")))
    leads = address.lower().startswith(_LINKED)
    return replace(look, text=address.removeprefix("mailto:"), address=address if leads else None)
