"""Checking what a store holds against the invariants of `handraise.model.store_invariants`, while others may use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass

from handraise.desk.everybody import active_groups, everybody
from handraise.model.events import EventKind
from handraise.model.grants import Grant
from handraise.model.questions import Question, Ref
from handraise.model.standing_answers import StandingAnswer
from handraise.model.store_invariants import (
    CHECKED_EVENTS,
    StoreRows,
    Violation,
    is_remembered,
    violations,
)
from handraise.ports import Backend, Filter

_PAGE = 200
_MOST_EVENTS = 100_000
_LOOKS = 3
"""How often a violation must be seen: the rows of a question that changes meanwhile are not all of one moment."""
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """How many questions were looked at, how many of them are pending, and what is wrong with them."""

    looked_at: int
    pending: int
    violations: Sequence[Violation]
    is_complete: bool
    """Whether that is all questions of the workspace."""


async def check_store(
    backend: Backend, workspace: str, *, limit: int, nothing_erased: bool = False
) -> StoreCheck:
    """Check up to `limit` pending questions of a workspace, and up to `limit` of the newest.

    With `nothing_erased`, a grant or standing answer that was used must still exist.
    """
    checker = _Checker(backend, workspace, await _known(backend, workspace, nothing_erased=nothing_erased))
    seen, pending, found, is_complete = set[str](), 0, list[Violation](), True
    for pages in (checker.pending, checker.newest):
        number = 0
        async for page in pages():
            ids = [each for each in page if each not in seen]
            seen.update(ids)
            rows = await checker.read(ids)
            pending += sum(each.outcome is None for each in rows.questions.values())
            found += await checker.lasting(violations(rows))
            if (number := number + len(page)) >= limit:
                is_complete = False
                break
    return StoreCheck(len(seen), pending, sorted(set(found)), is_complete)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is read once for all questions."""

    groups: Mapping[str, Collection[str]]
    everybody: Collection[str] | None
    nothing_erased: bool


async def _known(backend: Backend, workspace: str, *, nothing_erased: bool) -> _Known:
    people = [each async for each in everybody(backend.directory, workspace)]
    enabled = {each.id for each in people if each.disabled_at is None}
    groups = await active_groups(backend.directory, workspace)
    return _Known(groups, enabled if people else None, nothing_erased)


class _Checker:
    """Reads the rows of one workspace."""

    def __init__(self, backend: Backend, workspace: str, known: _Known) -> None:
        self._backend = backend
        self._workspace = workspace
        self._known = known

    async def pending(self) -> AsyncIterator[Sequence[str]]:
        """The ids of what is pending, page by page."""
        after, where = None, Filter(workspace=self._workspace)
        while page := await self._backend.store.pending(where, after=after, limit=_PAGE):
            after = page[-1].id
            yield [each.id for each in page]

    async def newest(self) -> AsyncIterator[Sequence[str]]:
        """The ids of all questions, the newest first, page by page."""
        before, ledger = None, self._backend.ledger
        while page := await ledger.newest_questions(self._workspace, before=before, limit=_PAGE):
            before = page[-1]
            yield page

    async def lasting(self, found: Sequence[Violation]) -> Sequence[Violation]:
        """Those violations that are still there a moment later."""
        lasting = set(found)
        for _ in range(_LOOKS - 1):
            if lasting:
                await asyncio.sleep(_PAUSE_S)
                lasting &= set(violations(await self.read({each.question_id for each in lasting})))
        return sorted(lasting)

    async def read(self, ids: Collection[str]) -> StoreRows:
        """The rows of these questions, and what they refer to."""
        store, workspace, known = self._backend.store, self._workspace, self._known
        questions = await self._questions(ids)
        events = await store.histories(workspace, ids, kinds=CHECKED_EVENTS, limit=_MOST_EVENTS)
        others = await self._questions(
            {each.follows for each in questions.values()} | {each.replaced_by for each in questions.values()}
        )
        for event in events:
            if event.kind is EventKind.JOINED and isinstance(event.data, dict):
                named = await store.find_by_key(workspace, event.by or "", str(event.data.get("key")))
                if named is not None:
                    others[named.id] = named
        grants = await self._grants() if any(map(is_remembered, questions.values())) else []
        standing = await self._standing_answers() if any(map(is_remembered, questions.values())) else []
        return StoreRows(
            questions=questions,
            others=others,
            inbox=await self._backend.ledger.inbox_rows(workspace, ids),
            events=events,
            grants={each.id: each for each in grants},
            standing_answers={each.id: each for each in standing},
            groups=known.groups,
            everybody=known.everybody,
            nothing_erased=known.nothing_erased,
        )

    async def _questions(self, ids: Collection[str | None]) -> dict[str, Question]:
        refs = [Ref(self._workspace, each) for each in sorted(filter(None, ids))]
        found = await self._backend.store.read(refs) if refs else []
        return {each.id: each for each in found if each is not None}

    async def _grants(self) -> Sequence[Grant]:
        found: list[Grant] = []
        while page := await self._backend.store.grants(
            self._workspace, after=found[-1].id if found else None, limit=_PAGE
        ):
            found += page
        return found

    async def _standing_answers(self) -> Sequence[StandingAnswer]:
        found: list[StandingAnswer] = []
        while page := await self._backend.policies.standing_answers(
            self._workspace, after=found[-1].id if found else None, limit=_PAGE
        ):
            found += page
        return found
