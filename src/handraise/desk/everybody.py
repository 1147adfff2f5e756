"""Everybody in a workspace, read from the directory page by page, and the groups of those who are not disabled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from handraise.model.identities import Person
from handraise.ports.directory import Directory

_PAGE = 500


async def everybody(
    directory: Directory, workspace: str, *, at_most: int | None = None
) -> AsyncIterator[Person]:
    """The people of a workspace in the order of their ids; all of them, or the first `at_most`."""
    after, left = None, at_most
    while left is None or left > 0:
        limit = _PAGE if left is None else min(_PAGE, left)
        page = await directory.people(workspace, after=after, limit=limit)
        for person in page:
            yield person
        if len(page) < limit:
            return
        after = page[-1].id
        left = None if left is None else left - len(page)


async def active_groups(directory: Directory, workspace: str) -> Mapping[str, Sequence[str]]:
    """Every group with its people, without those who are disabled."""
    groups = await directory.groups(workspace)
    disabled = await directory.disabled_people(workspace)
    return {name: [each for each in people if each not in disabled] for name, people in groups.items()}
