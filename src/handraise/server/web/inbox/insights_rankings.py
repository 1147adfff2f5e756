"""Charts of the insights that rank people, agents, tools, groups and channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from markupsafe import Markup

from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.statistics import Ending
from handraise.model.visible import visible_line
from handraise.presentation.names import channel_name
from handraise.presentation.translation import gettext, grouped
from handraise.server.web.inbox.charts import Bar, bars
from handraise.server.web.inbox.insights_period import Period
from handraise.server.web.inbox.settled_filters import UNNAMED

MOST_BARS = 8
_LONGEST_NAME = 60
Kind: TypeAlias = Literal["channel", "person", "agent", "tool", "group"]
"""What the bars stand for."""
_PARAMETERS: Mapping[Kind, str] = {
    "channel": "channel",
    "person": "by",
    "agent": "agent",
    "tool": "tool",
    "group": "group",
}
"""The filters of the settled questions."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with its heading; without a chart, what it would show."""

    id: str
    title: str
    chart: Markup | None
    empty: str
    note: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Whose questions are counted. `link` is what narrows the settled questions to those that count."""

    id: str
    title: str
    kind: Kind
    endings: Sequence[Ending]
    link: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of people, by their ids."""

    def bar(self, period: Period, who: str, *, share: float, value: str, is_bad: bool = False) -> Bar:
        """The bar of one of them; it leads to their questions."""
        href = period.settled(**self.link, **{_PARAMETERS[self.kind]: who})
        return Bar(
            label=_label(self.kind, who, self.names),
            share=share,
            value=value,
            tone="loud" if is_bad and share else "main",
            from_agent=self.kind in ("agent", "tool"),
            href=href if share else "",
        )

    def panel(self, drawn: Sequence[Bar], head: str, found: int, empty: str) -> Panel:
        """Its bars, with a sentence about those who have none."""
        chart = bars(self.id, self.title, (_head(self.kind), head), drawn) if drawn else None
        return Panel(self.id, self.title, chart, empty, _rest(self.kind, found))


def counted(period: Period, ranking: Ranking) -> Panel:
    """Who has the most."""
    ordered = _ordered(ranking.kind, ranking.endings)
    most = ordered[0][1] if ordered else 1
    drawn = [
        ranking.bar(period, who, share=count / most, value=grouped(count))
        for who, count in ordered[:MOST_BARS]
    ]
    return ranking.panel(drawn, gettext("Questions"), len(ordered), gettext("Nothing to count yet."))


def rates(period: Period, ranking: Ranking, counts: Callable[[Ending], bool]) -> Panel:
    """Which share of the questions of each counts. A group's share is bad."""
    ordered = _ordered(ranking.kind, ranking.endings)
    some = Counter(who for each in ranking.endings if counts(each) for who in _whose(ranking.kind, each))
    is_bad = ranking.kind == "group"
    drawn = [
        ranking.bar(
            period,
            who,
            share=some[who] / count,
            value=gettext("{some} of {all} · {percent}%").format(
                some=grouped(some[who]), all=grouped(count), percent=f"{100 * some[who] / count:.0f}"
            ),
            is_bad=is_bad,
        )
        for who, count in ordered[:MOST_BARS]
    ]
    if is_bad:
        empty = gettext("No group was asked a question that has a timeline.")
        return ranking.panel(drawn, gettext("Late"), len(ordered), empty)
    empty = gettext("No action was approved or denied by a person in this time.")
    return ranking.panel(drawn, gettext("Approved"), len(ordered), empty)


def most_seen(endings: Iterable[Ending]) -> list[str]:
    """The ids of the people who have a bar."""
    return [who for who, _ in _ordered("person", endings)[:MOST_BARS]]


def shown_name(name: str) -> str:
    """The name of an agent, a person or a tool, not too long."""
    line = visible_line(name[:_LONGEST_NAME]) + ("…" if len(name) > _LONGEST_NAME else "")
    if not mixes_alphabets(name):
        return line
    return gettext("{name} (letters of several alphabets)").format(name=line)


def _whose(kind: Kind, ending: Ending) -> Collection[str]:
    match kind:
        case "channel":
            return (ending.channel or UNNAMED,)
        case "person":
            return ending.people
        case "agent":
            return (ending.asker,)
        case "tool":
            return () if ending.tool is None else (ending.tool,)
        case "group":
            return frozenset(ending.groups)


def _ordered(kind: Kind, endings: Iterable[Ending]) -> list[tuple[str, int]]:
    counts = Counter(who for each in endings for who in _whose(kind, each))
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _label(kind: Kind, value: str, names: Mapping[str, str]) -> str:
    if kind == "channel":
        channel = gettext("no channel named") if value == UNNAMED else channel_name(value)
        return channel[:1].upper() + channel[1:]
    return shown_name(names.get(value, value))


def _head(kind: Kind) -> str:
    return {
        "channel": gettext("Channel"),
        "person": gettext("Person"),
        "agent": gettext("Agent"),
        "tool": gettext("Tool"),
        "group": gettext("Group"),
    }[kind]


def _rest(kind: Kind, found: int) -> str:
    """The sentence about those who have no bar."""
    if found <= MOST_BARS:
        return ""
    sentence = {
        "channel": gettext("The {shown} with the most, of {count} channels."),
        "person": gettext("The {shown} with the most, of {count} people."),
        "agent": gettext("The {shown} with the most, of {count} agents."),
        "tool": gettext("The {shown} with the most, of {count} tools."),
        "group": gettext("The {shown} with the most, of {count} groups."),
    }[kind]
    return sentence.format(shown=MOST_BARS, count=grouped(found))
