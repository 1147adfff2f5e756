"""The form in which a person says when they are away: what they may choose, what they sent, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from handraise.model.away import Away
from handraise.model.errors import InvalidRequest
from handraise.model.identities import Person
from handraise.model.json_values import text_problem
from handraise.model.visible import visible_line
from handraise.presentation.away_text import first_moment
from handraise.presentation.translation import gettext, gettext_noop, local_time
from handraise.server.context import ServerContext
from handraise.server.web.inbox.typed_names import PEOPLE_AT_ONCE, meant_by, names_of, to_type

_FIRST_YEAR, _LAST_YEAR = 1970, 9_998
_PROBLEMS = {
    "body.from": ("first", gettext_noop("Choose a day, or leave it empty.")),
    "body.until": ("last", gettext_noop("This day is in the past.")),
    "body.deputy": ("deputy", gettext_noop("This person cannot answer for you. Choose somebody else.")),
}
"""What is shown, and beside which field, if something is refused that was in order when the form was read."""


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
        return replace(form, problems=problems)
    begins = now if first is None else first_moment(first)
    return Away(starts=max(begins, now), until=first_moment(last + timedelta(days=1)), deputy=deputy)


def refused(form: AwayForm, error: InvalidRequest) -> AwayForm:
    """The form with what was refused after it had been read."""
    found = [_PROBLEMS[each.path] for each in error.problems]
    return replace(form, problems={name: gettext(text) for name, text in found})


async def _deputy(ctx: ServerContext, person: Person, typed: str) -> tuple[str | None, str | None]:
    """The id of the deputy, and what is wrong with what was typed."""
    if not typed:
        return None, None
    found = meant_by(visible_line(typed), await _names(ctx, person, with_me=True))
    if len(found) > 1:
        return None, gettext("Several people here are called “{name}”. Choose one from the list.").format(
            name=visible_line(typed)
        )
    # In a large workspace, not everybody is known here by name. An id is always possible.
    deputy = found[0] if found else typed
    known = None if text_problem(deputy) else await ctx.directory.find_person(person.workspace, deputy)
    return deputy, _deputy_problem(person, known, typed)


def _deputy_problem(person: Person, deputy: Person | None, typed: str) -> str | None:
    """Why this person cannot stand in, or None."""
    if deputy is None:
        text = gettext("Nobody here is called “{name}”. Choose somebody from the list.")
    elif deputy.id == person.id:
        text = gettext("You cannot stand in for yourself. Choose somebody else.")
    elif deputy.disabled_at is not None:
        text = gettext("“{name}” is disabled here, and cannot answer for you. Choose somebody else.")
    else:
        return None
    return text.format(name=visible_line(typed))


async def _names(ctx: ServerContext, person: Person, *, with_me: bool = False) -> Mapping[str, str]:
    people = await ctx.directory.people(person.workspace, after=None, limit=PEOPLE_AT_ONCE)
    return names_of(each for each in people if each.disabled_at is None and (with_me or each.id != person.id))


def _day(text: str) -> date | None:
    """A day that begins and ends in every time zone."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if _FIRST_YEAR <= day.year <= _LAST_YEAR else None
