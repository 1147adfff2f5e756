"""Builds the documentation site: `python -m scripts.site [--serve]`.

The pages are those in `docs/`, in the order of the map (`docs/index.md`), with the changelog and its like beside them.
A warning, a link or an anchor that leads nowhere, and a page that does not read as it does on GitHub are failures.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".cache" / "site-work"
SITE = ROOT / ".cache" / "site"

PROJECT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
"""Pages at the root of the repository, and where the site has them."""

_LANGUAGES = {".py": "python", ".yaml": "yaml", ".sql": "sql", ".service": "ini", ".sh": "bash", ".ts": "ts"}
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


class Broken(Exception):
    """The site has mistakes; the error's text lists them."""


def main() -> None:
    """Build the site, and serve it if asked to."""
    try:
        build()
    except Broken as broken:
        sys.exit(str(broken))
    print(f"{sum(1 for _ in SITE.rglob('*.html'))} pages are in {SITE.relative_to(ROOT)}")  # noqa: T201 -- a command
    if "--serve" in sys.argv[1:]:
        show()


def show() -> None:
    """Serve what was built on this machine, until it is interrupted."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 8000), handler) as server:
        print("http://127.0.0.1:8000")  # noqa: T201 -- a command
        server.serve_forever()


def build(root: Path = ROOT, work: Path = WORK, site: Path = SITE) -> None:
    """Build the site of a repository.

    Raises:
        Broken: Something on it is not as it should be.
    """
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    pages = _write(root, work)
    _configure(root, work)
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--clean",
        "--config-file",
        "zensical.toml",
    ]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    if done.returncode:
        raise Broken(re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr))
    (work / "site").rename(site)
    for page in site.rglob("*.html"):
        _save(page, _for_every_screen(page, page.read_text(encoding="utf-8")))
    if problems := [*leading_nowhere(site), *reading_otherwise(work / "docs", pages, site)]:
        raise Broken("\n".join(problems))


def _write(root: Path, work: Path) -> list[str]:
    """Write the pages as the site has them; return their names."""
    docs = work / "docs"
    shutil.copytree(root / "docs", docs)
    static = ROOT / "src" / "handraise" / "server" / "web" / "static"
    for source, goal in (
        (static / "mark.svg", docs / "images" / "mark.svg"),
        (ROOT / "scripts" / "site.css", docs / "stylesheets" / "site.css"),
    ):
        goal.parent.mkdir(exist_ok=True)
        shutil.copy(source, goal)
    places = {
        f"docs/{name}": name for name in (page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    }
    places |= {name: place for name, place in PROJECT.items() if (root / name).exists()}
    leading = _Leading(root, places)
    for name, place in places.items():
        text = leading.page(name)
        hidden = "navigation" if place == "index.md" else "toc" if _is_a_table(text) else None
        head = f"---\nhide:\n  - {hidden}\n---\n\n" if hidden else ""
        _save(docs / place, head + text)
    written: set[str] = set()
    while names := sorted(leading.shown - written):
        for name in names:
            # What is Markdown is read as a page, and may show more files.
            text = leading.page(name) if name.endswith(".md") else _sources(root, name)
            _save(docs / _source_page(name), text)
        written |= set(names)
    return [*places.values(), *(_source_page(name) for name in sorted(written) if name.endswith(".md"))]


def _is_a_table(text: str) -> bool:
    """Whether a page has a table and no headings, so that the table may have the place of their list."""
    return "\n|--" in text and "\n## " not in text


def _save(page: Path, text: str) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


class _Leading:
    """Turns the links of pages into those of the site; `shown` are the files of the repository that they link to."""

    def __init__(self, root: Path, places: Mapping[str, str]) -> None:
        self._root = root
        self._places = places
        self.shown: set[str] = set()

    def page(self, name: str) -> str:
        """The text of a page, as the site has it."""
        text = (self._root / name).read_text(encoding="utf-8")
        parts, end = [], 0
        for block in _FENCED.finditer(text):
            first, _, rest = block[0].partition("\n")
            # What follows the language is for our tests.
            parts += [self._led(name, text[end : block.start()]), first.split(" ")[0], "\n", rest]
            end = block.end()
        return "".join([*parts, self._led(name, text[end:])])

    def _led(self, name: str, prose: str) -> str:
        here = Path(self._places.get(name, _source_page(name))).parent

        def lead(match: re.Match[str]) -> str:
            path, hash_, anchor = match[1].partition("#")
            if not path or urlsplit(path).scheme:
                return match[1]
            goal = self._goal(os.path.normpath(Path(name).parent / path))
            return match[1] if goal is None else os.path.relpath(goal, here) + hash_ + anchor

        return _LINK.sub(lead, prose)

    def _goal(self, name: str) -> str | None:
        """Where the site has the file of this name in the repository; None if there is no such file."""
        if name in self._places:
            return self._places[name]
        if name == "README.md":
            return "index.md"
        if name.startswith("docs/"):
            return name.removeprefix("docs/")
        if (self._root / name).exists():
            self.shown.add(name)
            return _source_page(name)
        return None


def _source_page(name: str) -> str:
    return f"files/{name}.md"


def _sources(root: Path, name: str) -> str:
    """A page that shows a file of the repository, or those in a folder."""
    path = root / name
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    parts = [f"# {name}"]
    for each in files:
        if path.is_dir():
            parts.append(f"## {each.relative_to(path).as_posix()}")
        language = _LANGUAGES.get(each.suffix, "text")
        parts.append(f"````{language}\n{each.read_text(encoding='utf-8').rstrip()}\n````")
    return "\n\n".join(parts) + "\n"


def _configure(root: Path, work: Path) -> None:
    """Write the configuration, with the pages in the order of the map."""
    text = (root / "zensical.toml").read_text(encoding="utf-8")
    text = text.replace("[project]\n", f"[project]\nnav = {_toml(_nav(root))}\n", 1)
    (work / "zensical.toml").write_text(text, encoding="utf-8")


def _nav(root: Path) -> list[Any]:
    """The parts of the map, each with its pages, some of them under their own heading."""
    parts: list[Any] = [{"Home": "index.md"}]
    part: list[Any] = []
    under: list[Any] = part
    for line in (root / "docs" / "index.md").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## ([\w-]+): ", line):
            part = under = []
            parts.append({heading[1]: part})
        elif heading := re.match(r"### (.+)", line):
            under = []
            part.append({heading[1]: under})
        elif len(parts) > 1:
            under += [{title: page} for title, page in re.findall(r"\[([^\]]+)\]\(([\w/-]+\.md)\)", line)]
    project = [
        {Path(name).stem.capitalize(): place} for name, place in PROJECT.items() if (root / name).exists()
    ]
    return [*parts, *([{"Project": project}] if project else [])]


def _toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            return json.dumps(value)


def _for_every_screen(page: Path, text: str) -> str:
    """A built page, with what the style sheet needs to fit it to a phone."""
    text = _NAMES.sub(lambda code: re.sub(r"[^\s&;]{25,}", lambda name: _breakable(name[0]), code[0]), text)
    text = _HEADING.sub(_let_heading_break, text)
    text = re.sub(r"<table>.*?</table>", _let_table_stack, text, flags=re.DOTALL)
    text = re.sub(r'<img alt="[^"]*" src="([^"]+)"', functools.partial(_give_size, page), text)
    if page.name == "404.html":
        text = text.replace("</h1>", f"</h1>\n{_NOWHERE}", 1)
    return text


_NAMES = re.compile(r"(?<=<code>)(?<!</span><code>)[^<]+(?=</code>)")
_HEADING = re.compile(r'(?<=<h[123] )(id="[^"]*">)([^<]+)(?=<)')
_NOWHERE = '<p>There is no page at this address. <a href="/">The map</a> lists all pages.</p>'
_PHONE = 335
"""How many pixels a table has on a phone."""


def _breakable(name: str) -> str:
    """Mark where a long name may be broken: at its slashes, colons, dots and underscores."""
    return re.sub(r"(/|::|_|\.|=)(?=.)", r"\1<wbr>", name)


def _let_heading_break(match: re.Match[str]) -> str:
    """Let the long words of a heading be broken, also before a capital."""

    def broken(word: re.Match[str]) -> str:
        return re.sub(r"([a-z])(?=[A-Z])", r"\1<wbr>", _breakable(word[0]))

    return match[1] + re.sub(r"[^\s&;]{15,}", broken, match[2])


def _let_table_stack(match: re.Match[str]) -> str:
    """Mark what is long in a table; if it is too wide for a phone, say in each cell which column it is in."""
    table = match[0]
    heads = [_plain(head) for head in re.findall(r"<th[^>]*>(.*?)</th>", table, re.DOTALL)]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("</tr>")]
    columns = list(zip(*(row for row in rows if len(row) == len(heads)), strict=True))
    wide = sum(map(_width, columns)) > _PHONE
    stacked = wide and any(len(_plain(cell)) > _SENTENCE for column in columns for cell in column)
    place = -1

    def marked(cell: re.Match[str]) -> str:
        nonlocal place
        place += 1
        marks = cell[1]
        if len(_plain(cell[2])) > 2 * _SENTENCE:
            marks += ' class="long"'
        if stacked:
            marks += f' data-head="{html.escape(heads[place % len(heads)])}"'
        text = cell[2].replace("\\|", "|")  # as GitHub has it, also in code
        return f"<td{marks}>{text}</td>"

    table = re.sub(r"<td([^>]*)>(.*?)</td>", marked, table, flags=re.DOTALL)
    return table.replace("<table>", "<table data-stacked>", 1) if stacked else table


_SENTENCE = 30
"""From how many characters on a cell is a text, and no name or number."""


def _width(cells: tuple[str, ...]) -> float:
    """About how many pixels a column needs to be read with ease."""
    words = max(
        len(word) for cell in cells for word in re.split(r"[\s-]", _plain(cell.replace("<wbr>", " ")))
    )
    longest = max(len(_plain(cell)) for cell in cells)
    return 28 + 7.5 * max(words, min(longest, 17))


def _plain(part: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", part)).strip()


def _give_size(page: Path, match: re.Match[str]) -> str:
    """Say how large a picture is, so that nothing moves when it has come."""
    picture = page.parent / match[1]
    if picture.suffix != ".png" or not picture.exists():
        return match[0]
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return f'{match[0]} width="{width}" height="{height}"'


@dataclass
class Seen(HTMLParser):
    """What there is on a page that was built."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    shapes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record the tag's attributes."""
        of = dict(attrs)
        self.ids |= {name for name in (of.get("id"), of.get("name")) if name}
        if tag == "article":
            self._inside = True
        if self._inside and tag in SHAPES:
            self.shapes[tag] += 1
        if (link := of.get("href")) and tag == "a":
            self.links.append(link)
        elif (link := of.get("href")) and of.get("rel") != "canonical":
            self.fetched.append(link)
        if link := of.get("src"):
            self.fetched.append(link)

    def handle_endtag(self, tag: str) -> None:
        """Leave the text of the page."""
        if tag == "article":
            self._inside = False


SHAPES = ("h2", "h3", "h4", "table", "tr", "li", "pre", "img")
"""What a page of the site must have as often as the page on GitHub."""


def _seen(page: Path) -> Seen:
    seen = Seen()
    seen.feed(page.read_text(encoding="utf-8"))
    return seen


def leading_nowhere(site: Path) -> Iterator[str]:
    """Broken links of a built site, and what its pages would load from other sites."""
    pages = {page.resolve(): _seen(page) for page in sorted(site.rglob("*.html")) if page.name != "404.html"}
    for page, seen in pages.items():
        name = page.relative_to(site.resolve()).as_posix()
        for link in [*seen.links, *seen.fetched]:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                if link in seen.fetched and address.scheme != "data":
                    yield f"{name}: {link} is fetched from somebody else"
                continue
            goal = (page.parent / unquote(address.path)).resolve() if address.path else page
            goal = goal / "index.html" if goal.is_dir() else goal
            if not goal.exists():
                yield f"{name}: {link} leads nowhere"
            elif (
                (anchor := unquote(address.fragment))
                and goal in pages
                and anchor not in pages[goal].ids | {"__top"}
            ):
                yield f"{name}: {link} names no heading"


def reading_otherwise(docs: Path, pages: list[str], site: Path) -> Iterator[str]:
    """Pages that do not have the shape that GitHub gives them."""
    github = MarkdownIt("commonmark", {"html": True}).enable("table")
    for name in sorted(pages):
        here = Seen()
        here.feed(f"<article>{github.render(_without_head(docs / name))}</article>")
        place = Path(name).with_suffix("")
        built = site / ("index.html" if name == "index.md" else place / "index.html")
        there = _seen(built)
        if here.shapes != there.shapes:
            yield f"{name}: GitHub has {dict(here.shapes)}, the site has {dict(there.shapes)}"


def _without_head(page: Path) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


if __name__ == "__main__":
    main()
