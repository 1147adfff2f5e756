"""A difference as rows: what was on the left and what is now on the right, with the words that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, TypeAlias

from handraise.presentation.word_changes import Piece, word_changes

_MOST_COMPARED = 60
"""How many pairs of lines are compared word by word."""

Change: TypeAlias = Literal["same", "gone", "new", "skipped"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a difference: unchanged, removed, or added."""

    change: Change
    text: str


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row: a line that did not change, a remark, or an old line, a new line or both."""

    kind: Literal["same", "skipped", "changed"]
    text: str = ""
    old: tuple[Piece, ...] | None = None
    new: tuple[Piece, ...] | None = None


def diff_rows(lines: Iterable[DiffLine]) -> tuple[DiffRow, ...]:
    """The rows of a difference. Old lines and the new lines after them stand next to each other."""
    return tuple(_rows(lines))


def _rows(lines: Iterable[DiffLine]) -> Iterator[DiffRow]:
    gone: list[str] = []
    new: list[str] = []
    compared = 0
    for line in lines:
        if line.change == "gone" and not new:
            gone.append(line.text)
        elif line.change == "new":
            new.append(line.text)
        else:
            yield from _pairs(gone, new, _MOST_COMPARED - compared)
            compared += min(len(gone), len(new))
            gone, new = ([line.text], []) if line.change == "gone" else ([], [])
            if line.change == "same":
                yield DiffRow("same", line.text)
            elif line.change == "skipped":
                yield DiffRow("skipped", line.text)
    yield from _pairs(gone, new, _MOST_COMPARED - compared)


def _pairs(gone: Sequence[str], new: Sequence[str], left: int) -> Iterator[DiffRow]:
    for place, (old_line, new_line) in enumerate(zip_longest(gone, new)):
        if old_line is None or new_line is None or place >= left:
            yield DiffRow("changed", old=_whole(old_line), new=_whole(new_line))
        else:
            old_pieces, new_pieces = word_changes(old_line, new_line)
            yield DiffRow("changed", old=old_pieces, new=new_pieces)


def _whole(line: str | None) -> tuple[Piece, ...] | None:
    return None if line is None else (Piece(line, changed=True),)
