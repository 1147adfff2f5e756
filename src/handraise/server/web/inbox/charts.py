"""Small charts as SVG: horizontal bars and vertical columns, each a link if it has one, with its numbers in a table.

Colours are classes of the style sheet. Widths are percentages and heights are in the size of the text, so that
a chart is as crisp on a phone as on a wide screen and grows with its text. Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from handraise.presentation.translation import gettext, grouped

Tone = Literal["main", "back", "other", "loud"]

_ROW = 2.9
_LINE = 1.5
_THICK = 0.5
_SHORT = 7
"""The characters of a value that leaves more room for its label."""
_PLOT = 8.0
_ABOVE = 1.5
_BELOW = 1.7
_FEW = 8
_GAPS = (0.45, 0.25)
"""The gap between columns, as a part of their width: if there are few, and if there are many."""
_PAIR_GAP = 0.2
_BARE = 2
"""The columns of a table of names, which may be long."""
_LEAST = 0.12
"""The smallest size that is drawn: a value above zero is always visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: its share of the longest possible bar, from 0 to 1, and its text."""

    label: str
    share: float
    value: str
    tone: Tone = "main"
    from_agent: bool = False
    href: str = ""
    """What it counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column, made of a count for each series."""

    label: str
    counts: tuple[int, ...]
    tick: str = ""
    """The text below it."""
    tick_at: Literal["middle", "start"] = "middle"
    before: int | None = None
    """The same in the period before, as one number."""
    href: str = ""
    """What it counts in all series."""
    hrefs: tuple[str, ...] = ()
    """What it counts in each series."""


@dataclass(frozen=True, slots=True)
class Series:
    """What one part of every column counts."""

    name: str
    tone: Tone


def bars(name: str, title: str, heads: tuple[str, str], drawn: Sequence[Bar]) -> Markup:
    """Bars below each other; `name` is unique on the page."""
    room = 58 if max((len(each.value) for each in drawn), default=0) > _SHORT else 82
    rows = _all(_bar(each, place * _ROW, room) for place, each in enumerate(drawn))
    chart = _svg(name, title, len(drawn) * _ROW - 0.3, rows, has_links=any(each.href for each in drawn))
    table = [((each.label, each.from_agent), (_linked(each.href, each.value),)) for each in drawn]
    return _figure(chart, heads, table)


def columns(
    name: str, title: str, head: str, series: Sequence[Series], drawn: Sequence[Column], *, before: str = ""
) -> Markup:
    """Columns beside each other, each with its parts on top of each other; `name` is unique on the page.

    `before` is what the grey columns behind them count, if there are any.
    """
    most = max((max(sum(each.counts), each.before or 0) for each in drawn), default=0)
    width = 100 / max(len(drawn), 1)
    gap = width * _GAPS[len(drawn) > _FEW]
    base = _ABOVE + _PLOT
    parts = [_hatch(name)]
    if len(drawn) > _FEW and most:
        parts += [_line("grid", _ABOVE), _text("count", 0, _ABOVE - 0.4, grouped(most), "start")]
    for place, each in enumerate(drawn):
        scale = _PLOT / max(most, 1)
        if each.before:
            parts.append(_rect("before", place * width + gap / 4, width - gap / 2, each.before * scale))
        parts.append(_column(name, each, series, x=place * width + gap / 2, width=width - gap, scale=scale))
        if sum(each.counts) and len(drawn) <= _FEW:
            top = base - _PLOT * sum(each.counts) / most
            parts.append(_text("count", (place + 0.5) * width, top - 0.4, grouped(sum(each.counts))))
        parts += _tick(each, place, width)
    parts.append(_line("axis", base))
    has_links = any(each.href for each in drawn)
    chart = _svg(name, title, base + _BELOW, Markup("").join(parts), has_links=has_links)
    heads = (head, *(each.name for each in series), *filter(None, (before,)))
    table = [((each.label, False), _cells(each)) for each in drawn]
    return _figure(_legend(series, before) + chart, heads, table)


def pairs(name: str, title: str, head: str, series: Sequence[Series], drawn: Sequence[Column]) -> Markup:
    """Columns as in `columns`, but with their parts beside each other, each a link of its own."""
    most = max((max(each.counts) for each in drawn), default=0)
    width = 100 / max(len(drawn), 1)
    part = width * (1 - _PAIR_GAP) / max(len(series), 1)
    parts = [_line("grid", _ABOVE), _text("count", 0, _ABOVE - 0.4, grouped(most), "start")] if most else []
    for place, each in enumerate(drawn):
        hrefs = each.hrefs or ("",) * len(series)
        for number, (count, one, href) in enumerate(zip(each.counts, series, hrefs, strict=True)):
            if not count:
                continue
            x = place * width + width * _PAIR_GAP / 2 + number * part
            rect = _rect(one.tone, x, part, count * _PLOT / max(most, 1))
            said = f"{each.label}: {grouped(count)} {one.name}"
            parts.append(_link(href, Markup("<title>{}</title>{}").format(said, rect), said))
        parts += _tick(each, place, width)
    parts.append(_line("axis", _ABOVE + _PLOT))
    has_links = any(each.hrefs for each in drawn)
    chart = _svg(name, title, _ABOVE + _PLOT + _BELOW, Markup("").join(parts), has_links=has_links)
    table = [((each.label, False), _cells(each)) for each in drawn]
    return _figure(_legend(series) + chart, (head, *(each.name for each in series)), table)


def _tick(column: Column, place: int, width: float) -> list[Markup]:
    if not column.tick:
        return []
    middle = 0.5 if column.tick_at == "middle" else 0
    return [_text("tick", (place + middle) * width, _ABOVE + _PLOT + 1.3, column.tick)]


def _cells(column: Column) -> tuple[Markup | str, ...]:
    hrefs = column.hrefs or ("",) * len(column.counts)
    counted = zip(column.counts, hrefs, strict=True)
    cells = tuple(_linked(href if count else "", grouped(count)) for count, href in counted)
    return cells if column.before is None else (*cells, grouped(column.before))


def _bar(bar: Bar, top: float, room: int) -> Markup:
    mark = Markup(' data-from="agent"') if bar.from_agent else ""
    # This part is HTML: a text of SVG cannot be cut if there is no room for it.
    label = Markup(
        '<foreignObject y="{}em" width="{}%" height="{}em"><div class="bar-label"{}>{}</div></foreignObject>'
    ).format(_number(top), room, _LINE, mark, bar.label)
    y = _number(top + _LINE + 0.2)
    track = Markup('<rect class="track" y="{}em" width="100%" height="{}em" rx="{}em"/>').format(
        y, _THICK, _THICK / 2
    )
    fill = Markup('<rect class="{}" y="{}em" width="{}%" height="{}em" rx="{}em"/>').format(
        bar.tone, y, _number(max(100 * min(bar.share, 1), 1)), _THICK, _THICK / 2
    )
    inside = (
        label
        + _text(f"value {bar.tone}", 100, top + 1.1, bar.value, "end")
        + track
        + (fill if bar.share else "")
    )
    return _link(bar.href, inside)


def _column(
    name: str, column: Column, series: Sequence[Series], *, x: float, width: float, scale: float
) -> Markup:
    top = _ABOVE + _PLOT
    drawn: list[Markup] = []
    said: list[str] = []
    for count, each in zip(column.counts, series, strict=True):
        if not count:
            continue
        height = max(count * scale, _LEAST)
        top -= height
        said.append(f"{grouped(count)} {each.name}")
        place = Markup('x="{}%" y="{}em" width="{}%" height="{}em"').format(
            _number(x), _number(top), _number(width), _number(height)
        )
        drawn.append(Markup('<rect class="{}" {}/>').format(each.tone, place))
        if each.tone == "loud":
            drawn.append(Markup('<rect fill="url(#{}-hatch)" {}/>').format(name, place))
    if not drawn:
        return Markup("")
    words = f"{column.label}: {', '.join(said)}"
    inside = Markup("<title>{}</title>{}").format(words, _all(drawn))
    if not column.href:
        return Markup("<g>{}</g>").format(inside)
    # The whole height can be pressed, not only what is drawn.
    return _link(column.href, inside + _rect("room", x, width, _PLOT), words)


def _hatch(name: str) -> Markup:
    """Lines across a part, so that people can tell it from the others without its colour."""
    return Markup(
        '<defs><pattern id="{}-hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatch" width="1.5" height="5"/></pattern></defs>'
    ).format(name)


def _legend(series: Sequence[Series], before: str = "") -> Markup:
    if len(series) == 1 and not before:
        return Markup("")
    named = [(each.tone, each.name) for each in series] + ([("before", before)] if before else [])
    items = _all(
        Markup('<li><span class="swatch {}" aria-hidden="true"></span>{}</li>').format(tone, name)
        for tone, name in named
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def _svg(name: str, title: str, height: float, inside: Markup, *, has_links: bool = False) -> Markup:
    # An image has nothing in it that can be pressed.
    return Markup(
        '<svg class="chart" role="{4}" aria-labelledby="{0}-title" width="100%" height="{1}em">'
        '<title id="{0}-title">{2}</title>{3}</svg>'
    ).format(name, _number(height), title, inside, "group" if has_links else "img")


def _link(href: str, inside: Markup, words: str = "") -> Markup:
    """A part of a chart as a link. `words` are ours, and say what it counts if no text in it does."""
    if not href:
        return inside
    named = Markup(' aria-label="{}"').format(words) if words else ""
    return Markup('<a href="{}"{}>{}</a>').format(href, named, inside)


def _linked(href: str, text: str) -> Markup | str:
    return Markup('<a href="{}">{}</a>').format(href, text) if href else text


def _rect(kind: str, x: float, width: float, height: float) -> Markup:
    """A column that stands on the axis."""
    tall = max(height, _LEAST)
    return Markup('<rect class="{}" x="{}%" y="{}em" width="{}%" height="{}em"/>').format(
        kind, _number(x), _number(_ABOVE + _PLOT - tall), _number(width), _number(tall)
    )


def _text(kind: str, x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return Markup('<text class="{}" x="{}%" y="{}em" text-anchor="{}">{}</text>').format(
        kind, _number(x), _number(y), anchor, text
    )


def _line(kind: str, y: float) -> Markup:
    return Markup('<line class="{0}" x1="0" x2="100%" y1="{1}em" y2="{1}em"/>').format(kind, _number(y))


def _figure(
    chart: Markup, heads: Sequence[str], rows: Iterable[tuple[tuple[str, bool], tuple[Markup | str, ...]]]
) -> Markup:
    """A chart, and the same as a table for anyone who cannot see it or wants exact numbers."""
    head = _all(Markup('<th scope="col">{}</th>').format(each) for each in heads)
    lines = _all(
        Markup('<tr><th scope="row"{}>{}</th>{}</tr>').format(
            Markup(' data-from="agent"') if from_agent else "",
            label,
            _all(Markup("<td>{}</td>").format(each) for each in cells),
        )
        for (label, from_agent), cells in rows
    )
    return Markup(
        '<figure class="figure">{}<details><summary>{}</summary><table class="numbers{}">'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></details></figure>"
    ).format(chart, gettext("The numbers"), " series" if len(heads) > _BARE else "", head, lines)


def _all(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def _number(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
