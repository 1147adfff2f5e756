"""Markdown as lines of text, for terminals and for mails without HTML. No line is longer than it may be.

A line is made of runs: a text and the names of its styles, `strong`, `emphasis`, `code` or `soft`, with blanks
between. It reads well without any style too: code keeps its marks. So does struck-out text, which would say the
opposite without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handraise.presentation.line_wrap import Measure, Run, cells, wrapped
from handraise.presentation.markdown import (
    Block,
    Blocks,
    CodeBlock,
    ListBlock,
    Paragraph,
    Quote,
    Rule,
    Side,
    Span,
    Spans,
    Table,
    parse,
)

_BETWEEN = "  "
_CODE_INDENT = 4
_NARROWEST = 12


def text_lines(text: str, width: int, *, measure: Measure = cells) -> list[list[Run]]:
    """An agent's text as lines of at most this width."""
    return list(_Layout(measure).blocks(parse(text), width))


def plain_lines(text: str, width: int) -> list[str]:
    """The same without any style."""
    return ["".join(part for _, part in line).rstrip() for line in text_lines(text, width)]


def aligned_table(table: Table, width: int) -> list[str] | None:
    """A table as lines of fixed-width letters, or None if it does not fit without breaking a word."""
    lines = _Layout(cells).aligned(table, width)
    return None if lines is None else ["".join(part for _, part in line).rstrip() for line in lines]


@dataclass(frozen=True, slots=True)
class _Layout:
    measure: Measure

    def blocks(self, blocks: Blocks, width: int, *, tight: bool = False) -> Iterator[list[Run]]:
        for place, block in enumerate(blocks):
            if place and not tight:
                yield []
            yield from self._block(block, max(width, _NARROWEST))

    def _block(self, block: Block, width: int) -> Iterator[list[Run]]:
        match block:
            case Paragraph(lines=lines):
                for line in lines:
                    yield from self._wrapped(_runs(line), width)
            case CodeBlock(lines=lines):
                for code in lines:
                    indent = " " * _CODE_INDENT
                    yield from self._wrapped([("", indent), ("code", code)], width, indent=_CODE_INDENT)
            case Quote(blocks=blocks):
                for inside in self.blocks(blocks, width - 2):
                    yield [("soft", "> "), *inside]
            case ListBlock():
                yield from self._list(block, width)
            case Table():
                yield from self._table(block, width)
            case Rule():
                yield [("soft", "─" * min(width, 24))]

    def _wrapped(self, line: Sequence[Run], width: int, *, indent: int = 0) -> list[list[Run]]:
        return wrapped(line, width, indent=indent, measure=self.measure)

    def _list(self, block: ListBlock, width: int) -> Iterator[list[Run]]:
        last = (block.start or 0) + len(block.items) - 1
        for place, item in enumerate(block.items):
            mark = "• " if block.start is None else f"{block.start + place}.".ljust(len(str(last)) + 2)
            if place and not block.tight:
                yield []
            inside = list(self.blocks(item, width - len(mark), tight=block.tight)) or [[]]
            yield [("soft", mark), *inside[0]]
            yield from ([("", " " * len(mark)), *line] if line else [] for line in inside[1:])

    def _table(self, table: Table, width: int) -> Iterator[list[Run]]:
        lines = self.aligned(table, width)
        if lines is None:
            head, rows = _cells_of(table)
            yield from self._records(head, rows, width)
        else:
            yield from lines

    def aligned(self, table: Table, width: int) -> list[list[Run]] | None:
        """A table in columns, or None if it does not fit like that."""
        head, rows = _cells_of(table)
        widths = self._widths([head, *rows], width)
        if widths is None:
            return None
        lines = [
            *self._row(head, widths, table.sides),
            [("soft", _BETWEEN.join("─" * each for each in widths))],
        ]
        return lines + [line for row in rows for line in self._row(row, widths, table.sides)]

    def _widths(self, rows: Sequence[Sequence[Sequence[Run]]], width: int) -> list[int] | None:
        """How wide each column is so that no word is broken, or None if the table does not fit like that."""
        columns = list(zip(*rows, strict=True))
        texts = [["".join(text for _, text in cell) for cell in column] for column in columns]
        widths = [max(1, *map(self.measure, column)) for column in texts]
        least = [max(1, *(self.measure(word) for cell in each for word in cell.split(" "))) for each in texts]
        # `wrapped` makes no line that is narrower.
        least = [min(full, max(10, word)) for full, word in zip(widths, least, strict=True)]
        over = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width
        while over > 0:
            spare = [full - word for full, word in zip(widths, least, strict=True)]
            widest = max(range(len(widths)), key=lambda place: (spare[place] > 0, widths[place]))
            if spare[widest] <= 0:
                return None
            taken = min(over, spare[widest], max(1, over // len(widths)))
            widths[widest] -= taken
            over -= taken
        return widths

    def _row(
        self, row: Sequence[Sequence[Run]], widths: Sequence[int], sides: Sequence[Side]
    ) -> Iterator[list[Run]]:
        parts = [self._wrapped(cell, size) for cell, size in zip(row, widths, strict=True)]
        for place in range(max(map(len, parts))):
            line: list[Run] = []
            for column, size in enumerate(widths):
                part = parts[column][place] if place < len(parts[column]) else []
                blank = max(0, size - self.measure("".join(text for _, text in part).rstrip()))
                before = {"left": 0, "right": blank, "center": blank // 2}[sides[column]]
                line += [("", _BETWEEN)] if column else []
                line += [("", " " * before), *_stripped(part), ("", " " * (blank - before))]
            yield line

    def _records(
        self, head: Sequence[Sequence[Run]], rows: Sequence[Sequence[Sequence[Run]]], width: int
    ) -> Iterator[list[Run]]:
        """A table that is too wide: each row as lines of a name and a value."""
        for place, row in enumerate(rows):
            if place:
                yield []
            for name, cell in zip(head, row, strict=True):
                yield from self._wrapped([*name, ("strong", ": "), *cell], width, indent=2)
        if not rows:
            yield from self._wrapped([run for name in head for run in (*name, ("", _BETWEEN))], width)


def _cells_of(table: Table) -> tuple[list[list[Run]], list[list[list[Run]]]]:
    """The head of a table, which is all strong, and its rows."""
    head = [[("strong", text) for _, text in _runs(cell)] for cell in table.head]
    return head, [[_runs(cell) for cell in row] for row in table.rows]


def _stripped(part: Sequence[Run]) -> list[Run]:
    """A line without the blanks at its end."""
    kept = list(part)
    while kept and not kept[-1][1].strip(" "):
        kept.pop()
    return kept


def _runs(spans: Spans) -> list[Run]:
    runs: list[Run] = []
    struck = False
    for span in spans:
        if span.struck != struck:
            struck = span.struck
            runs.append(("soft", "~~"))
        runs.append((_style(span), f"`{span.text}`" if span.code else span.text))
    return [*runs, ("soft", "~~")] if struck else runs


def _style(span: Span) -> str:
    names = {"strong": span.strong, "emphasis": span.emphasis, "code": span.code}
    return " ".join(name for name, has in names.items() if has)
