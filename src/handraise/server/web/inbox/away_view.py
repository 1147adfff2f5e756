"""Who is away, as pages say it."""

from __future__ import annotations

from datetime import datetime

from handraise.model.away import deputy_of
from handraise.model.identities import Person
from handraise.model.people import GROUP, is_eligible
from handraise.model.questions import Question
from handraise.ports import Directory
from handraise.presentation.away_text import away_text, own_away_text


async def own_absence(
    directory: Directory, person: Person, now: datetime, *, coming: bool = False
) -> str | None:
    """What a person reads about being away now, or with `coming` also later; None if they are not."""
    away = person.away
    if away is None or now >= away.until or (away.starts > now and not coming):
        return None
    others = await directory.away(person.workspace)
    deputy = deputy_of(person.id, {**others, person.id: away})
    found = None if deputy is None else await directory.find_person(person.workspace, deputy)
    return own_away_text(away, None if found is None else found.name, now)


async def away_lines(directory: Directory, question: Question, me: str, now: datetime) -> list[str]:
    """Who of those to whom a pending question is addressed by name is away, and who is asked too."""
    named = [name for name in question.recipients if not name.startswith(GROUP)]
    if question.outcome is not None or not named:
        return []
    away = await directory.away(question.workspace)
    lines = []
    for name in named:
        if name not in away:
            continue
        deputy = deputy_of(name, away)
        found = None if deputy is None else await directory.find_person(question.workspace, deputy)
        asked = found.name if found is not None and is_eligible(question, found.responder) else None
        if name == me:
            lines.append(own_away_text(away[name], asked, now))
            continue
        person = await directory.find_person(question.workspace, name)
        lines.append(away_text(name if person is None else person.name, away[name], asked, now))
    return lines
