"""Moves on pending questions: read the facts, let the model decide, save the change. The caller holds the write lock."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

from handraise.backends.sql.parameters import FOR_GOOD, to_json
from handraise.backends.sql.rows import (
    from_json,
    instant,
    stored_grant,
    stored_question,
    stored_standing_answer,
    stored_stop,
)
from handraise.backends.sqlite.statements import run
from handraise.backends.sqlite.timestamps import micros
from handraise.model.events import EventKind
from handraise.model.grants import Grant
from handraise.model.lifecycle import VOTES, Move
from handraise.model.move_decisions import Ballot, Change, Facts, Refusal, Right, decide
from handraise.model.outcomes import Status
from handraise.model.people import GROUP
from handraise.model.questions import Question, changed

_SHARING = frozenset(
    {
        EventKind.TAKEN,
        EventKind.RELEASED,
        EventKind.BROUGHT_IN,
        EventKind.HANDED_OVER,
        EventKind.SET_ASIDE,
        EventKind.PUT_BACK,
    }
)


def settle(connection: sqlite3.Connection, move: Move, now: int) -> Change | Refusal:
    """Decide a move and save what it changes in the question, its inbox and its grants. The event is left to the caller."""
    place = {"workspace": move.question.workspace, "id": move.question.id}
    rows = run(connection, "lock", actor=move.by, **place)
    if not rows:
        return Refusal.SETTLED
    question = stored_question(rows[0])
    decided = decide(question, move, _facts(connection, question, move, rows[0], now))
    if isinstance(decided, Change):
        _save(connection, question, move, decided, now)
    return decided


def moved_question(move: Move, change: Change) -> Question:
    """The question after a move, with what the caller knew of it besides what is stored."""
    return changed(change.question, url=move.question.url, callback=move.question.callback)


def _facts(
    connection: sqlite3.Connection, question: Question, move: Move, row: sqlite3.Row, now: int
) -> Facts:
    ballots = {
        person: Ballot(_stored_right(given["backed"], given["groups"]), given["seen"])
        for person, given in (from_json(row["voters"]) or {}).items()
    }
    grant = _grant_used(connection, move)
    people = {move.by, *ballots} if question.takes_votes or move.new_grant is not None else {move.by}
    if grant is not None:
        people.add(grant[0].granted_by)
    known, disabled = {}, set()
    for each in run(connection, "rights", workspace=question.workspace, people=sorted(people)):
        known[each["id"]] = frozenset(json.loads(each["groups"]))
        if each["is_disabled"]:
            disabled.add(each["id"])
    ruling, standing = question.ruling, None
    if ruling is not None and ruling.standing is not None and move.kind in VOTES:
        kept = run(connection, "read_standing_answer", workspace=question.workspace, standing=ruling.standing)
        standing = stored_standing_answer(kept[0]) if kept else None
    return Facts(
        now=instant(now),
        known=known,
        disabled=disabled,
        stops=[stored_stop(each) for each in json.loads(row["stops"])],
        ballots=ballots,
        grant=grant,
        standing=standing,
    )


def _grant_used(connection: sqlite3.Connection, move: Move) -> tuple[Grant, Right] | None:
    if move.grant_id is None:
        return None
    rows = run(connection, "read_grant", workspace=move.question.workspace, id=move.grant_id)
    if not rows:
        return None
    right = _stored_right(rows[0]["giver_backed"], from_json(rows[0]["giver_groups"]) or [])
    return stored_grant(rows[0]), right


def _save(connection: sqlite3.Connection, before: Question, move: Move, change: Change, now: int) -> None:
    after, place = change.question, {"workspace": before.workspace, "id": before.id}
    run(connection, "save_move", **_columns(after, change, move, now), **place)
    if after.status is Status.PENDING:
        if change.kind is EventKind.VOTED and after.stage != before.stage:
            run(connection, "ask", names=list(after.audience), **place)
        if move.to:
            run(connection, "bring_in", brought=list(move.to), **place)
        if change.kind in _SHARING:
            run(connection, "put_aside", **place)
        if after.asked_back != before.asked_back:
            run(connection, "turn", asked_back=after.asked_back > 0, **place)
    if change.grant is not None:
        _remember(connection, *change.grant)
    if change.suspends is not None:
        run(connection, "suspend_rule", actor=move.by, now=now, **place)


def _columns(after: Question, change: Change, move: Move, now: int) -> dict[str, Any]:
    """What a move can change, as it is stored."""
    has_ended = after.status is not Status.PENDING
    return {
        "status": after.status.value,
        "settled_at": now if has_ended else None,
        "outcome": to_json(move.record) if has_ended else None,
        "attempts": after.attempts,
        "thread": after.thread,
        "asked_back": after.asked_back,
        "replied": after.replied,
        "votes": _object({vote.by: vote.ballot for vote in after.votes}),
        "voters": _object(
            {
                person: {
                    "backed": ballot.right.backed,
                    "groups": _named(ballot.right.groups),
                    "seen": ballot.seen,
                }
                for person, ballot in change.ballots.items()
            }
        ),
        "missing": list(after.missing) or None,
        "added": list(after.added) or None,
        "aside": _object(
            {each.person: FOR_GOOD if each.until is None else micros(each.until) for each in after.aside}
        ),
        "taken_by": after.taken_by,
        "taken_until": None if after.taken_until is None else micros(after.taken_until),
    }


def _remember(connection: sqlite3.Connection, grant: Grant, right: Right) -> None:
    run(
        connection,
        "grant",
        workspace=grant.workspace,
        id=grant.question_id,
        grant_id=grant.id,
        asker=grant.asker,
        tool=grant.tool,
        digest=grant.digest,
        scope=grant.scope,
        conversation=grant.conversation,
        actor=grant.granted_by,
        now=micros(grant.created_at),
        expires_at=micros(grant.expires_at),
        giver_groups=_named(right.groups),
        giver_backed=right.backed,
    )


def _stored_right(backed: int | None, groups: Collection[str]) -> Right:
    return Right(
        None if backed is None else bool(backed), frozenset(each.removeprefix(GROUP) for each in groups)
    )


def _named(groups: Collection[str]) -> list[str]:
    """Groups as recipients name them."""
    return sorted(GROUP + group for group in groups)


def _object(values: Mapping[str, Any]) -> str | None:
    return to_json(dict(values)) if values else None
