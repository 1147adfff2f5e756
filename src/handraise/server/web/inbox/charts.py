"""Small charts as SVG: horizontal bars and vertical columns, each with its numbers in a table.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column, made of a count for each series."""

    label: str
    counts: tuple[int, ...]
    tick: str = ""
    """The text below it."""
    tick_at: Literal["middle", "start"] = "middle"


@dataclass(frozen=True, slots=True)
class Series:
    """What one part of every column counts."""

    name: str
    tone: Tone


def bars(name: str, title: str, heads: tuple[str, str], drawn: Sequence[Bar]) -> Markup:
    """Bars below each other; `name` is unique on the page."""
    room = 58 if max((len(each.value) for each in drawn), default=0) > _SHORT else 82
    rows = _all(_bar(each, place * _ROW, room) for place, each in enumerate(drawn))
    chart = _svg(name, title, len(drawn) * _ROW - 0.3, rows)
    return _figure(chart, heads, [((each.label, each.from_agent), (each.value,)) for each in drawn])


def columns(name: str, title: str, head: str, series: Sequence[Series], drawn: Sequence[Column]) -> Markup:
    """Columns beside each other, each with its parts on top of each other; `name` is unique on the page."""
    most = max((sum(each.counts) for each in drawn), default=0)
    width = 100 / max(len(drawn), 1)
    gap = width * _GAPS[len(drawn) > _FEW]
    base = _ABOVE + _PLOT
    parts = [_hatch(name)]
    if len(drawn) > _FEW and most:
        parts += [_line("grid", _ABOVE), _text("count", 0, _ABOVE - 0.4, grouped(most), "start")]
    for place, each in enumerate(drawn):
        parts.append(
            _column(
                name, each, series, x=place * width + gap / 2, width=width - gap, scale=_PLOT / max(most, 1)
            )
        )
        if sum(each.counts) and len(drawn) <= _FEW:
            top = base - _PLOT * sum(each.counts) / most
            parts.append(_text("count", (place + 0.5) * width, top - 0.4, grouped(sum(each.counts))))
        if each.tick:
            middle = 0.5 if each.tick_at == "middle" else 0
            parts.append(_text("tick", (place + middle) * width, base + 1.3, each.tick))
    parts.append(_line("axis", base))
    chart = _svg(name, title, base + _BELOW, Markup("").join(parts))
    heads = (head, *(each.name for each in series))
    table = [((each.label, False), tuple(map(grouped, each.counts))) for each in drawn]
    return _figure(_legend(series) + chart, heads, table)


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
    return (
        label
        + _text(f"value {bar.tone}", 100, top + 1.1, bar.value, "end")
        + track
        + (fill if bar.share else "")
    )


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
    return Markup("<g><title>{}: {}</title>{}</g>").format(column.label, ", ".join(said), _all(drawn))


def _hatch(name: str) -> Markup:
    """Lines across a part, so that people can tell it from the others without its colour."""
    return Markup(
        '<defs><pattern id="{}-hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatch" width="1.5" height="5"/></pattern></defs>'
    ).format(name)


def _legend(series: Sequence[Series]) -> Markup:
    if len(series) == 1:
        return Markup("")
    items = _all(
        Markup('<li><span class="swatch {}" aria-hidden="true"></span>{}</li>').format(each.tone, each.name)
        for each in series
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def _svg(name: str, title: str, height: float, inside: Markup) -> Markup:
    return Markup(
        '<svg class="chart" role="img" aria-labelledby="{0}-title" width="100%" height="{1}em">'
        '<title id="{0}-title">{2}</title>{3}</svg>'
    ).format(name, _number(height), title, inside)


def _text(kind: str, x: float, y: float, text: str, anchor: str = "middle") -> Markup:
    return Markup('<text class="{}" x="{}%" y="{}em" text-anchor="{}">{}</text>').format(
        kind, _number(x), _number(y), anchor, text
    )


def _line(kind: str, y: float) -> Markup:
    return Markup('<line class="{0}" x1="0" x2="100%" y1="{1}em" y2="{1}em"/>').format(kind, _number(y))


def _figure(
    chart: Markup, heads: Sequence[str], rows: Iterable[tuple[tuple[str, bool], tuple[str, ...]]]
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
