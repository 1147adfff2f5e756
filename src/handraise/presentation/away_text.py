"""Who is away and who is on duty, in words."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from handraise.model.away import Away
from handraise.presentation.names import display_name
from handraise.presentation.times import day_and_month, moment_text
from handraise.presentation.translation import gettext, local_time

_INSTANT = timedelta(microseconds=1)


def until_text(away: Away, now: datetime) -> str:
    """Until when somebody is away: the last day if it is a whole one, else the instant."""
    if local_time(away.until).time() != time():
        return moment_text(away.until)
    return day_and_month(local_time(away.until - _INSTANT).date(), local_time(now).date())


def own_away_text(away: Away, deputy: str | None, now: datetime) -> str:
    """What a person who is away reads. `deputy` is who answers for them now."""
    until = until_text(away, now)
    if away.starts > now:
        begins = day_and_month(local_time(away.starts).date(), local_time(now).date())
        text = gettext("You will be away from {day} until {until}.").format(day=begins, until=until)
    else:
        text = gettext("You are away until {until}.").format(until=until)
    if deputy is None:
        return f"{text} {gettext('Nobody answers for you.')}"
    return f"{text} {gettext('{person} answers for you.').format(person=display_name(deputy))}"


def away_text(person: str, away: Away, deputy: str | None, now: datetime) -> str:
    """What others read about a person who is away. `deputy` is who is asked too, if anybody."""
    values = {"person": display_name(person), "until": until_text(away, now)}
    if deputy is None:
        return gettext("{person} is away until {until}.").format(**values)
    return gettext("{person} is away until {until}; {deputy} is asked too.").format(
        **values, deputy=display_name(deputy)
    )


def rota_text(group: str, problem: str | None) -> str:
    """What an administrator reads about a rota that cannot be used; without a problem, nobody is on duty."""
    name = display_name(group)
    if problem is None:
        return gettext(
            "Nobody in {group} is on duty by its calendar, so the whole group is notified."
        ).format(group=name)
    return gettext(
        "The calendar of {group} cannot be used, so the whole group is notified: {problem}."
    ).format(group=name, problem=display_name(problem))


def first_moment(day: date) -> datetime:
    """When a day begins on the clock of the person who reads."""
    zone = local_time(datetime.now(UTC)).tzinfo
    return datetime.combine(day, time(), zone).astimezone(UTC)
