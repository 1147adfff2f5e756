"""Check that recipients exist: a question to a name that nobody has would wait forever. Find deputies of those who are away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from handraise.desk.batcher import KeyedBatcher
from handraise.desk.everybody import everybody
from handraise.model.away import Away, deputies_for
from handraise.model.group_calendars import WorkspaceCalendars
from handraise.model.people import GROUP
from handraise.model.problems import Problem
from handraise.model.questions import Draft
from handraise.model.unknown_recipients import nearest, recipients_of, unknown_recipient
from handraise.ports import Directory

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger(__name__)

_GOOD_FOR = 10.0
"""For how many seconds a name that was found is not looked up again."""
_KEPT = 10_000
_TOGETHER = 64
_NEAREST_AMONG = 1_000
"""Among how many people a similar name is searched."""


class _Wanted(NamedTuple):
    workspace: str
    names: tuple[str, ...]


class _Names(NamedTuple):
    """The known names of a workspace, and until when they are valid."""

    names: Sequence[str]
    until: float


class _Absent(NamedTuple):
    """Who of a workspace is away, and until when that is valid."""

    away: Mapping[str, Away]
    until: float


class Recipients:
    """Checks the recipients of questions against a directory, and finds the deputies of those who are away.

    Names that were found recently cost nothing; others are looked up together with those of other callers. So
    a person who has just been removed may still be asked for some seconds, as if the question had been asked
    before. The same holds for somebody who has just gone away or come back.
    """

    def __init__(
        self,
        directory: Directory,
        may_come: Callable[[str, str], bool] = lambda _workspace, _name: False,
        *,
        checks: bool = True,
    ) -> None:
        """`may_come` says for a workspace and a name whether somebody may get this name without being added first.

        Without `checks`, everybody can be asked.
        """
        self._checks = checks
        self._directory = directory
        self._may_come = may_come
        self._known: dict[tuple[str, str], float] = {}
        self._names: dict[str, _Names] = {}
        self._absent: dict[str, _Absent] = {}
        self._said: dict[tuple[str, str], None] = {}
        self._looks: KeyedBatcher[_Wanted, Collection[str] | None] = KeyedBatcher(
            self._look, _TOGETHER, lambda wanted: wanted.workspace
        )
        self._away: KeyedBatcher[str, Mapping[str, Away]] = KeyedBatcher(
            self._look_who_is_away, _TOGETHER, lambda workspace: workspace
        )

    async def close(self) -> None:
        """Finish running calls."""
        await self._looks.close()
        await self._away.close()

    async def problems(self, draft: Draft) -> Sequence[Problem]:
        """What is wrong with the recipients of a question, now or when it escalates."""
        return await self.unknown(draft.workspace, recipients_of(draft))

    async def deputies_of(self, draft: Draft) -> tuple[str, ...]:
        """Who is asked besides the recipients, because one of them is away. Give the question as the policy made it."""
        if all(name.startswith(GROUP) for name in draft.recipients):
            return ()
        return deputies_for(draft, await self.away(draft.workspace))

    async def calendars(self, workspace: str) -> WorkspaceCalendars:
        """When the groups of a workspace work."""
        return await self._directory.calendars(workspace)

    async def away(self, workspace: str) -> Mapping[str, Away]:
        """Everybody in a workspace who is away."""
        known = self._absent.get(workspace)
        if known is None or known.until < time.monotonic():
            known = _Absent(await self._away(workspace), time.monotonic() + _GOOD_FOR)
            _keep(self._absent, workspace, known)
        return known.away

    async def _look_who_is_away(self, workspaces: Sequence[str]) -> Sequence[Mapping[str, Away]]:
        return [await self._directory.away(workspaces[0])] * len(workspaces)

    async def unknown(
        self, workspace: str, asked: Sequence[tuple[str, str]], *, again: bool = False
    ) -> Sequence[Problem]:
        """A problem for each of these names that nobody has. With each name is the path of what names it.

        With `again`, also names that were found recently are looked up. In a workspace without people there is nothing to
        compare with: this is logged once for each name.
        """
        if not self._checks:
            return ()
        now = time.monotonic()
        new = tuple({name for _, name in asked if again or self._known.get((workspace, name), 0.0) < now})
        if not new:
            return ()
        found = await self._looks(_Wanted(workspace, new))
        if found is None:
            self._say_once(workspace, new)
            found = new
        for name in found:
            _keep(self._known, (workspace, name), now + _GOOD_FOR)
        unknown = {name for name in new if name not in found and not self._may_come(workspace, name)}
        return [
            Problem(path, unknown_recipient(name, await self._nearest(workspace, name)))
            for path, name in asked
            if name in unknown
        ]

    async def _look(self, wanted: Sequence[_Wanted]) -> Sequence[Collection[str] | None]:
        names = {name for each in wanted for name in each.names}
        found = await self._directory.known_recipients(wanted[0].workspace, names)
        return [None if found is None else found & set(each.names) for each in wanted]

    def _say_once(self, workspace: str, names: Collection[str]) -> None:
        for name in names:
            if (workspace, name) not in self._said:
                _keep(self._said, (workspace, name), None)
                _log.info(
                    "no people are known in %s, so %r cannot be checked",
                    workspace,
                    name,
                    extra={"event": "recipients_unchecked"},
                )

    async def _nearest(self, workspace: str, name: str) -> Sequence[str]:
        if not name.startswith(GROUP) and "@" in name:
            holder = await self._directory.find_person_by_email(workspace, name)
            if holder is not None:
                return [holder.id]
        known = self._names.get(workspace)
        if known is None or known.until < time.monotonic():
            names = [GROUP + group for group in await self._directory.groups(workspace)]
            people = everybody(self._directory, workspace, at_most=max(0, _NEAREST_AMONG - len(names)))
            names += [person.id async for person in people]
            known = _Names(names, time.monotonic() + _GOOD_FOR)
            _keep(self._names, workspace, known)
        return nearest(name, known.names)


def _keep(kept: dict[K, V], key: K, value: V) -> None:
    """Store a value under its key, and drop the oldest if there are too many."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]
