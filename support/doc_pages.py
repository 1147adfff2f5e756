"""Reads the pages: their blocks, their prose, their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TEXTS = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def first_line(self) -> str:
        """The line that it begins with."""
        return self.text.partition("\n")[0]

    @property
    def title(self) -> str:
        """Which terminal it is, if a page has several: `console title="…"`."""
        named = re.search(r'title="([^"]*)"', " ".join(self.marks))
        return named[1] if named else ""

    @property
    def place(self) -> tuple[str, str]:
        """Where it is, for lists of exceptions."""
        return name_of(self.page), self.first_line


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    blocks: list[Block] = []
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened is None and line.startswith("```"):
            opened, inside = (number, line[3:]), []
        elif opened is not None and line.startswith("```"):
            language, *marks = opened[1].split() or [""]
            blocks.append(Block(page, opened[0], language, tuple(marks), "\n".join(inside)))
            opened = None
        elif opened is not None:
            inside.append(line)
    assert opened is None, f"{name_of(page)}:{opened} is never closed"
    return blocks


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def matches(shown: str, real: str) -> bool:
    """Whether a page shows what was printed; an ellipsis in the page stands for anything."""
    pattern = ".*?".join(map(re.escape, shown.strip().split("…")))
    return re.fullmatch(pattern, real.strip(), re.DOTALL) is not None


def rows_of(page: Path) -> Iterator[list[str]]:
    """The cells of every table row of a page, headings left out."""
    for line in prose_of(page).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and not set(cells[0]) <= set("-: "):
            yield cells


# These pages show whole programs that run in the environment of the frameworks: tests/integrations.
FOREIGN = [page for page in PAGES if page.parent in (DOCS / "integrations", DOCS / "coming-from")]
