"""The audit trail in memory."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from handraise.backends.memory.clock import now_by
from handraise.backends.memory.directory import MemoryDirectory
from handraise.backends.memory.files import MemoryFiles
from handraise.backends.memory.outbox import MemoryOutbox
from handraise.backends.memory.store import MemoryStore
from handraise.backends.seal_chain import continues
from handraise.backends.sql.parameters import draft_values
from handraise.backends.sql.rows import asked_of
from handraise.model.events import Event
from handraise.model.grants import Grant
from handraise.model.json_values import Json
from handraise.model.questions import Question, Ref
from handraise.model.seals import SALT, Hold, Removal, Rule, Seal, rule_change
from handraise.model.workspace_events import WorkspaceEvent, hold_lifted, hold_placed, person_erased
from handraise.ports import Clock, Head
from handraise.ports.files import owner_of_person


class MemoryLedger:
    """The audit trail, lost when the process ends. See `handraise.ports.Ledger` for what each method promises."""

    def __init__(
        self,
        store: MemoryStore,
        directory: MemoryDirectory,
        outbox: MemoryOutbox,
        clock: Clock | None = None,
        *,
        files: MemoryFiles | None = None,
    ) -> None:
        self._files = files
        self._store = store
        self._directory = directory
        self._outbox = outbox
        self._clock = clock
        self._seals: dict[str, list[Seal]] = {}
        self._salts: dict[Ref, bytes] = {}
        self._removals: dict[int, tuple[str, int | None, Removal]] = {}
        self._numbers = 0
        self._rules: dict[str, Rule] = {}
        self._holds: dict[Ref, Hold] = {}
        self._removing: tuple[Literal["erased", "removed"], str | None] = ("removed", None)
        self._let_go = store.removed
        store.removed = self._removed
        store.keeps = self._keeps
        store.may_go = lambda ref: not self._is_held(ref) and not self._is_unsealed(ref)

    async def unsealed(self, *, limit: int) -> Sequence[str]:
        """Workspaces with something to seal; see the port."""
        both: list[Event | WorkspaceEvent] = [*self._store.all_events, *self._store.all_changes]
        behind = {each.workspace for each in both if int(each.cursor) > self._end(each.workspace)}
        return sorted(behind | {place for place, seal, _ in self._removals.values() if seal is None})[:limit]

    async def head(self, workspace: str) -> Head:
        """The last seal; see the port."""
        first = next(iter(self._store.trail_of(workspace)), None)
        chain = self._seals.get(workspace, [])
        needed = (seal.number for seal in chain if first and int(seal.cursor) >= int(first.cursor))
        return Head(chain[-1] if chain else None, now_by(self._clock), next(needed, None))

    async def has_signed(self, workspace: str, key_id: str) -> bool:
        """Whether a key has signed; see the port."""
        return any(seal.key_id == key_id for seal in self._seals.get(workspace, []))

    async def salts(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, bytes]:
        """The salts of questions; see the port."""
        there = [each for each in question_ids if self._store.peek(Ref(workspace, each))]
        return {each: self._salts.setdefault(Ref(workspace, each), os.urandom(SALT)) for each in there}

    async def asked(self, workspace: str, question_ids: Collection[str]) -> Mapping[str, Json]:
        """What was asked; see the port."""
        found = {each: self._store.peek(Ref(workspace, each)) for each in question_ids}
        return {each: asked_of(draft_values(question)) for each, question in found.items() if question}

    async def removals(self, workspace: str, *, seal: int | None, limit: int) -> Sequence[Removal]:
        """Removals of a seal, or of none; see the port."""
        found = [each for place, by, each in self._removals.values() if (place, by) == (workspace, seal)]
        return found[:limit]

    async def append(self, seal: Seal, *, removals: Sequence[int]) -> bool:
        """Add a seal; see the port."""
        workspace, chain = seal.workspace, self._seals.setdefault(seal.workspace, [])
        there = [
            event.cursor
            for event in self._store.trail_of(workspace)
            if self._end(workspace) < int(event.cursor) <= int(seal.cursor)
        ]
        if not continues(seal, await self.head(workspace), there):
            return False
        self._seals[workspace] = [each for each in (*chain, seal) if each.number >= seal.oldest]
        for number in removals:
            place, covered, removal = self._removals[number]
            self._removals[number] = (place, covered or seal.number, removal)
        self._removals = {
            number: each
            for number, each in self._removals.items()
            if each[0] != workspace or each[1] is None or each[1] >= seal.oldest
        }
        return True

    async def seals(self, workspace: str, *, after: int, limit: int) -> Sequence[Seal]:
        """Seals in their order; see the port."""
        return [seal for seal in self._seals.get(workspace, []) if seal.number > after][:limit]

    async def concerning(self, workspace: str, person: str) -> Sequence[str]:
        """The questions of a person; see the port."""
        acted = {
            event.question_id
            for event in self._store.all_events
            if event.workspace == workspace and (event.by == person or person in _named_in(event))
        }
        named = {
            ref.id
            for ref, question in self._store.all_questions.items()
            if ref.workspace == workspace and _concerns(question, person)
        }
        return sorted(acted | named)

    async def erase(self, workspace: str, question_ids: Collection[str], *, by: str) -> Sequence[str]:
        """Erase questions; see the port."""
        refs = {Ref(workspace, each) for each in question_ids}
        gone = {ref for ref in refs if self._store.peek(ref) and not self._is_held(ref)}
        self._removing = ("erased", by)
        try:
            self._store.erase(gone)
        finally:
            self._removing = ("removed", None)
        ids = sorted(ref.id for ref in gone)
        self._outbox.erase_entries(gone)
        self._directory.erase_questions(workspace, ids)
        return ids

    async def erase_person(self, workspace: str, person: str, *, by: str | None = None) -> None:
        """Erase what else is kept about a person; see the port."""

        def unnamed(grant: Grant) -> Grant:
            theirs = (grant.workspace, grant.revoked_by) == (workspace, person)
            return replace(grant, revoked_by="erased") if theirs else grant

        self._directory.erase_person(workspace, person)
        self._erase_changes(workspace, person)
        self._outbox.erase_person(workspace, person)
        if self._files is not None:
            self._files.erase_person(workspace, owner_of_person(person))
        self._store.replace_grants(unnamed)
        self._store.erase_from_policies(workspace, person)
        for ref, hold in self._holds.items():
            if (ref.workspace, hold.by) == (workspace, person):
                self._holds[ref] = replace(hold, by="erased", reason="erased")
        for place, standing in list(self._store.standing_answers.items()):
            if (standing.workspace, standing.revoked_by) == (workspace, person):
                self._store.standing_answers[place] = replace(standing, revoked_by="erased")
        self._store.note(workspace, None if by is None else person_erased(by=by))

    async def scrub(self) -> bool:
        """Nothing is written anywhere; see the port."""
        return True

    async def rules(self, workspace: str) -> Rule | None:
        """A workspace's rule; see the port."""
        return self._rules.get(workspace)

    async def put_rule(self, workspace: str, rule: Rule | None, *, by: str | None = None) -> None:
        """Give a workspace a rule; see the port."""
        if rule == self._rules.get(workspace):
            return
        self._store.note(workspace, rule_change(rule, by=by))
        if rule is None:
            self._rules.pop(workspace, None)
        else:
            self._rules[workspace] = rule

    async def hold(self, hold: Hold) -> None:
        """Hold something; see the port."""
        if Ref(hold.workspace, hold.name) not in self._holds:
            self._holds[Ref(hold.workspace, hold.name)] = replace(hold, since=now_by(self._clock))
            self._store.note(
                hold.workspace, hold_placed(hold.name, hold.question_id, hold.reason, by=hold.by)
            )

    async def lift(self, workspace: str, name: str, *, by: str | None = None) -> bool:
        """Lift a hold; see the port."""
        lifted = self._holds.pop(Ref(workspace, name), None) is not None
        self._store.note(workspace, hold_lifted(name, by=by) if lifted else None)
        return lifted

    async def holds(self, workspace: str) -> Sequence[Hold]:
        """What is held; see the port."""
        return [hold for ref, hold in sorted(self._holds.items()) if ref.workspace == workspace]

    def _removed(self, ref: Ref) -> None:
        """Note that a question is removed; its events are still there."""
        what, by = self._removing
        cursors = tuple(
            event.cursor for event in self._store.all_events if (event.workspace, event.question_id) == ref
        )
        if self._seals.get(ref.workspace):
            self._note_removal(ref.workspace, ref.id, cursors, what, by)
        self._salts.pop(ref, None)
        self._let_go(ref)

    def _erase_changes(self, workspace: str, person: str) -> None:
        """Remove the events of the workspace that concern a person."""
        gone = [
            each for each in self._store.all_changes if each.workspace == workspace and each.concerns(person)
        ]
        if gone and self._seals.get(workspace):
            self._note_removal(workspace, "", [each.cursor for each in gone], "erased", None)
        self._store.drop_changes(gone)

    def _note_removal(
        self,
        workspace: str,
        question_id: str,
        cursors: Sequence[str],
        what: Literal["erased", "removed"],
        by: str | None,
    ) -> None:
        self._numbers += 1
        removal = Removal(
            number=self._numbers,
            question_id=question_id,
            what=what,
            at=now_by(self._clock),
            by=by,
            cursors=tuple(cursors),
        )
        self._removals[self._numbers] = (workspace, None, removal)

    def _keeps(self, workspace: str, keep: timedelta | None) -> timedelta | None:
        rule = self._rules.get(workspace)
        return keep if rule is None else rule.keep

    def _is_held(self, ref: Ref) -> bool:
        return any(
            hold.workspace == ref.workspace and hold.question_id in (None, ref.id)
            for hold in self._holds.values()
        )

    def _is_unsealed(self, ref: Ref) -> bool:
        if not self._seals.get(ref.workspace):
            return False
        return any(
            (event.workspace, event.question_id) == ref and int(event.cursor) > self._end(ref.workspace)
            for event in self._store.all_events
        )

    def _end(self, workspace: str) -> int:
        chain = self._seals.get(workspace)
        return int(chain[-1].cursor) if chain else 0


def _named_in(event: Event) -> Sequence[Json]:
    """Who was asked by an event of a question."""
    asks = event.kind in ("asked", "escalated", "brought_in", "handed_over", "voted")
    names = event.data.get("to") if asks and isinstance(event.data, dict) else None
    return names if isinstance(names, list) else ()


def _concerns(question: Question, person: str) -> bool:
    named = {
        question.asker,
        *question.recipients,
        *question.added,
        *(name for step in question.steps for name in step.to),
        *(each.person for each in question.aside),
        *(name for need in question.needs for name in need.people),
    }
    if person in named or any(vote.by == person for vote in question.votes):
        return True
    return getattr(question.outcome, "by", None) == person
