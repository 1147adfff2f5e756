"""The form in which a person says when they are away: what they may choose, what they sent, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from handraise.model.away import Away
from handraise.model.identities import Person
from handraise.model.visible import visible_line
from handraise.presentation.away_text import first_moment
from handraise.presentation.translation import gettext, local_time
from handraise.server.context import ServerContext
from handraise.server.web.inbox.typed_names import PEOPLE_AT_ONCE, meant_by, names_of, to_type


@dataclass(frozen=True, slots=True, kw_only=True)
class AwayForm:
    """The form as a person sent it. `problems` says what is wrong, by the name of the field."""

    first: str = ""
    last: str = ""
    deputy: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


async def deputies(ctx: ServerContext, person: Person) -> Sequence[tuple[str, str]]:
    """Who can be chosen as the deputy: what to type, and what to show beside it."""
    return to_type(await _names(ctx, person))


async def read_away(ctx: ServerContext, person: Person, form: AwayForm) -> Away | AwayForm:
    """When the person is away, or the form with what is wrong with it."""
    now, problems = datetime.now(UTC), {}
    today = local_time(now).date()
    first, last = _day(form.first), _day(form.last)
    if form.first and first is None:
        problems["first"] = gettext("Choose a day, or leave it empty.")
    if last is None:
        problems["last"] = gettext("Choose the last day on which you are away.")
    elif last < today:
        problems["last"] = gettext("This day is in the past.")
    elif first is not None and last < first:
        problems["last"] = gettext("The last day must not be before the first day.")
    deputy, why = await _deputy(ctx, person, form.deputy.strip())
    if why:
        problems["deputy"] = why
    if problems or last is None:
        return AwayForm(first=form.first, last=form.last, deputy=form.deputy, problems=problems)
    begins = now if first is None else first_moment(first)
    return Away(starts=max(begins, now), until=first_moment(last + timedelta(days=1)), deputy=deputy)


async def _deputy(ctx: ServerContext, person: Person, typed: str) -> tuple[str | None, str | None]:
    """The id of the deputy, and what is wrong with what was typed."""
    if not typed:
        return None, None
    found = meant_by(visible_line(typed), await _names(ctx, person, with_me=True))
    if list(found) == [person.id]:
        return None, gettext("You cannot stand in for yourself. Choose somebody else.")
    if len(found) > 1:
        return None, gettext("Several people here are called “{name}”. Choose one from the list.").format(
            name=visible_line(typed)
        )
    # In a large workspace, not everybody is known here by name. An id is always possible.
    return (found[0] if found else typed), None


async def _names(ctx: ServerContext, person: Person, *, with_me: bool = False) -> Mapping[str, str]:
    people = await ctx.directory.people(person.workspace, after=None, limit=PEOPLE_AT_ONCE)
    return names_of(each for each in people if each.disabled_at is None and (with_me or each.id != person.id))


def _day(text: str) -> date | None:
    """A day that can be followed by another one."""
    try:
        day = date.fromisoformat(text)
        first_moment(day + timedelta(days=1))
    except (ValueError, OverflowError):
        return None
    return day
