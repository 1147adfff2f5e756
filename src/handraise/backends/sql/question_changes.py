"""Changing questions: lock them, read the facts, let the model decide, and save what changes, in one transaction.

It is the same for all engines. Only here are the facts of a decision read, and only here is a change saved.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from handraise.backends.sql.parameters import FOR_GOOD, json_text, to_json
from handraise.backends.sql.rows import (
    Row,
    as_it_stands,
    instant,
    stored_grant,
    stored_standing_answer,
    stored_stop,
)
from handraise.backends.sql.transactions import Transaction, Values
from handraise.model.grants import Grant
from handraise.model.inbox_rows import InboxRow
from handraise.model.lifecycle import VOTES, Move, Refusal
from handraise.model.move_decisions import Ballot, Change, Facts, Refused, Right, decide
from handraise.model.people import GROUP
from handraise.model.questions import Aside, Question, Ref
from handraise.model.standing_answers import StandingAnswer


class _Locked(NamedTuple):
    """A question as it stands, its row, and the votes that were ever given."""

    move: Move
    question: Question
    row: Row
    ballots: Mapping[str, Ballot]


class _Rights(NamedTuple):
    """What the directory of a workspace says about some people: the groups of those it knows, and who is disabled."""

    known: dict[str, frozenset[str]]
    disabled: set[str]


async def settle(moves: Sequence[Move], work: Transaction) -> Sequence[Change | Refused]:
    """Decide moves, at most one on each question, and save what they change.

    The moves are in the order in which questions are locked.
    """
    places = [{**move.question.ref._asdict(), "actor": move.by} for move in moves]
    rows = {Ref(row["workspace"], row["id"]): row for row in await work.fetch_each("lock", places)}
    locked = [
        _Locked(move, as_it_stands(move.question, row), row, _ballots(row["voters"]))
        for move in moves
        if (row := rows.get(move.question.ref)) is not None
    ]
    facts = await _facts(locked, work)
    decided = {
        each.question.ref: decide(each.question, each.move, facts[each.question.ref]) for each in locked
    }
    await save([each for each in decided.values() if isinstance(each, Change)], work)
    return [
        decided.get(move.question.ref, Refused(why=Refusal.SETTLED, question=move.question)) for move in moves
    ]


async def save(changes: Sequence[Change], work: Transaction) -> None:
    """Store what has changed in questions, with their places in the inbox and their history."""
    if not changes:
        return
    suspended = [each for each in changes if each.suspends is not None]
    contradicted = [(each, each.contradicts) for each in changes if each.contradicts is not None]
    await work.write(
        {
            "save_questions": list(map(_question_values, changes)),
            "leave_inbox": [each.question.ref._asdict() for each in changes if each.has_ended],
            "save_inbox": [_inbox_values(each.question.ref, row) for each in changes for row in each.inbox],
            "add_grants": [_grant_values(*each.grant) for each in changes if each.grant is not None],
            "suspend_rules": [
                {**each.question.ref._asdict(), "rule": each.suspends, "actor": each.by} for each in suspended
            ],
            "end_standing": [
                {**each.question.ref._asdict(), "standing": ended.id, "actor": each.by}
                for each, ended in contradicted
            ],
            "add_events": [
                *map(_event_values, changes),
                *(_contradiction_values(each, ended) for each, ended in contradicted),
            ],
        }
    )


async def _facts(locked: Sequence[_Locked], work: Transaction) -> dict[Ref, Facts]:
    """What decides about these questions, read now that they are locked."""
    grants = await _grants_used(locked, work)
    rights = await _rights(locked, grants, work)
    standing = await _standing_checked(locked, work)
    facts = {}
    for move, question, row, ballots in locked:
        known, disabled = rights.get(question.workspace, ({}, set()))
        ruling = question.ruling
        facts[question.ref] = Facts(
            now=instant(row["now"]),
            known=known,
            disabled=disabled | {move.by} if row["is_disabled"] else disabled,
            stops=[stored_stop(each) for each in json.loads(row["stops"] or "[]")],
            ballots=ballots,
            grant=None if move.grant_id is None else grants.get(Ref(question.workspace, move.grant_id)),
            standing=standing.get(Ref(question.workspace, ruling.standing or "")) if ruling else None,
        )
    return facts


async def _grants_used(locked: Sequence[_Locked], work: Transaction) -> dict[Ref, tuple[Grant, Right]]:
    """The grants that moves use, locked: a revocation that was acknowledged is seen, and a later one waits."""
    places = {Ref(each.question.workspace, each.move.grant_id) for each in locked if each.move.grant_id}
    rows = await work.fetch_each("grants_used", [place._asdict() for place in sorted(places)])
    return {
        Ref(row["workspace"], row["id"]): (
            stored_grant(row),
            _right(row["giver_backed"], json.loads(row["giver_groups"] or "[]")),
        )
        for row in rows
    }


async def _standing_checked(locked: Sequence[_Locked], work: Transaction) -> dict[Ref, StandingAnswer]:
    """The standing answers of which these questions are spot checks, locked."""
    places = {
        Ref(question.workspace, question.ruling.standing)
        for move, question, _, _ in locked
        if move.kind in VOTES and question.ruling is not None and question.ruling.standing is not None
    }
    rows = await work.fetch_each("standing_checked", [place._asdict() for place in sorted(places)])
    return {Ref(row["workspace"], row["id"]): stored_standing_answer(row) for row in rows}


async def _rights(
    locked: Sequence[_Locked], grants: Mapping[Ref, tuple[Grant, Right]], work: Transaction
) -> dict[str, _Rights]:
    """What the directories say about those who take part: locked first, then read, so that it stays so."""
    concerned = [each for each in locked if _is_about_rights(each)]
    people = {
        (question.workspace, name) for move, question, _, ballots in concerned for name in (move.by, *ballots)
    }
    people |= {(ref.workspace, grant.granted_by) for ref, (grant, _) in grants.items()}
    groups = {
        (question.workspace, name.removeprefix(GROUP))
        for _, question, _, _ in concerned
        for name in (*question.eligible, *(each for need in question.needs for each in need.people))
        if name.startswith(GROUP)
    }
    named = [{"workspace": workspace, "person": name} for workspace, name in sorted(people)]
    await work.fetch_each("lock_people", named)
    await work.fetch_each(
        "lock_groups", [{"workspace": workspace, "group_name": name} for workspace, name in sorted(groups)]
    )
    rights: dict[str, _Rights] = {}
    for row in await work.fetch_each("rights", named):
        found = rights.setdefault(row["workspace"], _Rights({}, set()))
        found.known[row["id"]] = frozenset(json.loads(row["groups"]))
        if row["is_disabled"]:
            found.disabled.add(row["id"])
    return rights


def _is_about_rights(locked: _Locked) -> bool:
    """Whether a decision depends on what the directory says, so that this must not change before it is saved."""
    move = locked.move
    if move.kind == "grant" or move.new_grant is not None:
        return True
    return locked.question.takes_votes and move.kind in VOTES


def _ballots(stored: str | None) -> dict[str, Ballot]:
    return {
        person: Ballot(_right(given["backed"], given["groups"]), given["seen"])
        for person, given in json.loads(stored or "{}").items()
    }


def _right(backed: int | None, groups: Collection[str]) -> Right:
    return Right(
        None if backed is None else bool(backed), frozenset(each.removeprefix(GROUP) for each in groups)
    )


def _question_values(change: Change) -> Values:
    """What can change in a question, as it is stored."""
    question = change.question
    return {
        **question.ref._asdict(),
        "status": question.status.value,
        "outcome": json_text(change.data or {}) if change.has_ended else None,
        "attempts": question.attempts,
        "thread": question.thread,
        "asked_back": question.asked_back,
        "replied": question.replied,
        "votes": _object({vote.by: vote.ballot for vote in question.votes}),
        "voters": _object(_ballots_stored(change.ballots)),
        "missing": json_text(question.missing) if question.missing else None,
        "added": json_text(question.added) if question.added else None,
        "aside": _aside_stored(question.aside),
        "taken_by": question.taken_by,
        "taken_until": question.taken_until,
    }


def _ballots_stored(ballots: Mapping[str, Ballot]) -> dict[str, Any]:
    return {
        person: {
            "backed": ballot.right.backed,
            "groups": _named(ballot.right.groups),
            "seen": ballot.seen,
        }
        for person, ballot in ballots.items()
    }


def _aside_stored(aside: Iterable[Aside]) -> str | None:
    """Who does not want a question, and until when, in microseconds since 1970."""
    return _object(
        {
            each.person: FOR_GOOD if each.until is None else round(each.until.timestamp() * 1_000_000)
            for each in aside
        }
    )


def _inbox_values(ref: Ref, row: InboxRow) -> Values:
    return {**ref._asdict(), **row._asdict(), "aside": _aside_stored(row.aside)}


def _event_values(change: Change) -> Values:
    return {
        **change.question.ref._asdict(),
        "kind": change.kind.value,
        "actor": change.by,
        "channel": change.channel,
        "data": to_json(change.data),
    }


def _contradiction_values(change: Change, ended: StandingAnswer) -> Values:
    """The event of the question whose answer is not kept any more."""
    return {
        "workspace": ended.workspace,
        "id": ended.question_id,
        "kind": "revoked",
        "actor": change.by,
        "channel": None,
        "data": json_text({"standing": ended.id, "question": change.question.id}),
    }


def _grant_values(grant: Grant, right: Right) -> Values:
    return {
        "workspace": grant.workspace,
        "id": grant.id,
        "asker": grant.asker,
        "tool": grant.tool,
        "digest": grant.digest,
        "scope": grant.scope,
        "conversation": grant.conversation,
        "granted_by": grant.granted_by,
        "question_id": grant.question_id,
        "created_at": grant.created_at,
        "expires_at": grant.expires_at,
        "giver_groups": json_text(_named(right.groups)),
        "giver_backed": right.backed,
    }


def _named(groups: Iterable[str]) -> list[str]:
    """Groups as recipients name them."""
    return sorted(GROUP + group for group in groups)


def _object(values: Mapping[str, Any]) -> str | None:
    return json_text(dict(values)) if values else None


def rounds_of(touched: Sequence[tuple[Ref, ...]]) -> list[list[int]]:
    """The places of what touches these, in rounds that touch each of them once and always lock in the same order."""
    rounds: list[list[int]] = []
    seen: dict[Ref, int] = {}
    for place, refs in enumerate(touched):
        turn = max(seen.get(ref, 0) for ref in refs)
        seen.update(dict.fromkeys(refs, turn + 1))
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(place)
    for places in rounds:
        places.sort(key=touched.__getitem__)
    return rounds
