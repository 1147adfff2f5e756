"""Whom somebody means who types the name of a person or a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from handraise.model.identities import Person
from handraise.model.people import GROUP
from handraise.model.visible import visible_line
from handraise.ports import Directory
from handraise.presentation.names import listed, recipient_name

PEOPLE_AT_ONCE = 500
"""How many people a page offers, and how many it knows by their display names."""


def names_of(people: Iterable[Person], groups: Iterable[str] = ()) -> Mapping[str, str]:
    """What people and groups are called, by the id under which they are asked."""
    return {f"{GROUP}{each}": visible_line(each) for each in groups} | {
        each.id: visible_line(each.name) for each in people
    }


def meant_by(typed: str, names: Mapping[str, str]) -> Sequence[str]:
    """The ids that a typed text can mean: an id, or else ids and display names without regard to case."""
    if typed in names:
        return [typed]
    wanted = typed.casefold()
    return [each for each, shown in names.items() if wanted in (each.casefold(), shown.casefold())]


def to_type(names: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """What to type for each of these, and what to show beside it: the display name, or the id if two are called the same."""
    return [
        (shown, "") if list(meant_by(shown, names)) == [each] else (each, shown)
        for each, shown in names.items()
    ]


async def display_names(directory: Directory, workspace: str, ids: Collection[str], *, me: str) -> str:
    """These people and groups in a sentence, by their display names."""
    shown = []
    for each in ids:
        person = None if each.startswith(GROUP) else await directory.find_person(workspace, each)
        known = person is not None and each != me
        shown.append(visible_line(person.name) if known and person else recipient_name(each, viewer=me))
    return listed(shown)
