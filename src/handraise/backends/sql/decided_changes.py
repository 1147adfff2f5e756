"""Changing questions: lock them, read the facts, let the model decide, and save what changes, in one transaction.

It is the same for all engines. New questions go the same way in `handraise.backends.sql.new_questions`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from handraise.backends.sql.parameters import FOR_GOOD, grant_query, json_text
from handraise.backends.sql.rows import (
    Row,
    as_it_stands,
    from_json,
    instant,
    stored_grant,
    stored_question,
    stored_standing_answer,
    stored_stop,
)
from handraise.backends.sql.transactions import Transaction, Values
from handraise.model.approval_uses import (
    SealedEnding,
    Use,
    UseFacts,
    UseRefusal,
    UseRefused,
    can_be_reported,
    can_be_taken_back,
    check_use,
)
from handraise.model.due_changes import (
    due_change,
    expiry_change,
    follower_changes,
    orphan_change,
    replacement_change,
)
from handraise.model.events import EventKind
from handraise.model.grants import Grant
from handraise.model.inbox_entries import InboxEntry
from handraise.model.json_values import Json
from handraise.model.lifecycle import VOTES, Move, Refusal
from handraise.model.move_decisions import Ballot, Change, Facts, Refused, Right, decide, is_still_right
from handraise.model.outcomes import Answered
from handraise.model.people import GROUP
from handraise.model.questions import Aside, Draft, Question, Ref
from handraise.model.receipts import UsableApproval
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop


class _Locked(NamedTuple):
    """A question as it stands, its row, and the votes that were ever given."""

    move: Move
    question: Question
    row: Row
    ballots: Mapping[str, Ballot]


class Rights(NamedTuple):
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


async def save(changes: Sequence[Change], work: Transaction) -> list[Ref]:
    """Store what has changed in questions, and in those that follow what has ended; return what has ended."""
    await _write(changes, work)
    ended = [each for each in changes if each.has_ended]
    refs = [each.question.ref for each in ended]
    for leader in ended:
        if leader.question.topic is None or leader.question.follows is not None:
            continue
        refs += await _end_followers(leader.question.ref, leader, work)
    return refs


async def ask_next(erased: Ref, work: Transaction) -> None:
    """Ask the oldest of the questions that followed one that was erased."""
    await _end_followers(erased, None, work)


async def _end_followers(leader: Ref, ended: Change | None, work: Transaction) -> list[Ref]:
    rows = await work("lock_followers", **leader._asdict())
    if not rows:
        return []
    now = instant(rows[0]["now"])
    return await save(follower_changes(ended, [stored_question(row) for row in rows], now), work)


async def take_due_steps(workspace: str, limit: int, work: Transaction) -> tuple[list[Ref], bool]:
    """Do the next due step of some timelines of a workspace, and close questions for which nobody waits.

    Return what has ended, and whether anything was due. What another transaction has locked is skipped.
    """
    due = await work("lock_due", workspace=workspace, limit=limit)
    changes = [each for row in due if (each := due_change(stored_question(row), instant(row["now"])))]
    # One step at a time: what was due twice comes again.
    done = {each.question.id for each in changes}
    unheard = await work("lock_unheard", workspace=workspace, limit=limit)
    unheard = [row for row in unheard if row["id"] not in done]
    put_off = []
    for row in unheard:
        question = stored_question(row)
        if (change := orphan_change(question, instant(row["now"]))) is not None:
            changes.append(change)
        elif question.closes_at is None or question.closes_at > instant(row["now"]):
            put_off.append({**question.ref._asdict(), "unheard_at": question.closes_at})
    await work.fetch_each("put_off_closing", put_off)
    if not changes:
        return [], bool(put_off)
    return await save(changes, work), True


async def expire_older(
    workspace: str, asker: str, max_age: timedelta, limit: int, work: Transaction
) -> list[Ref]:
    """Expire some of an asker's pending questions that are too old."""
    rows = await work("lock_old", workspace=workspace, asker=asker, max_age=max_age, limit=limit)
    if not rows:
        return []
    now = instant(rows[0]["now"])
    return await save([expiry_change(stored_question(row), now) for row in rows], work)


async def lock_replaced(drafts: Sequence[Draft], work: Transaction) -> list[tuple[Question, str]]:
    """The questions that these drafts replace, locked, each with the id of the new one."""
    new_ids = {Ref(each.workspace, each.replaces): each for each in drafts if each.replaces is not None}
    places = [{**ref._asdict(), "asker": new_ids[ref].asker} for ref in sorted(new_ids)]
    rows = await work.fetch_each("lock_replaced", places)
    return [(old, new_ids[old.ref].id) for old in map(stored_question, rows)]


async def replace(replaced: Sequence[tuple[Question, str]], now: datetime, work: Transaction) -> None:
    """Note by which new questions these are replaced, and withdraw those that are open."""
    if not replaced:
        return
    changes = [replacement_change(old, new_id, now) for old, new_id in replaced]
    over = [each for each in changes if each.kind is EventKind.REPLACED]
    links = [{**old.ref._asdict(), "replaced_by": new_id} for old, new_id in replaced]
    events = [_event_values(each, EventKind.REPLACED) for each in over]
    await work.write({"save_replacements": links, "add_events": events})
    await save([each for each in changes if each.kind is not EventKind.REPLACED], work)


async def use_approval(ref: Ref, use: Use, work: Transaction) -> UsableApproval | UseRefused | None:
    """Use an approval up, or without a request only say whether it could be used. None if there is no question.

    A request that has used it before may use it again, which changes nothing.
    """
    rows = await work.fetch_each("lock_settled", [ref._asdict()])
    if not rows:
        return None
    question = stored_question(rows[0])
    facts = await _use_facts(question, (from_json(rows[0]["outcome"]) or {}).get("grant"), use, work)
    found = check_use(question, use, facts)
    if isinstance(found, UseRefused):
        is_again = found.why is UseRefusal.USED and facts.is_repeated
        return UsableApproval(facts.now, None) if is_again else found
    if use.request is not None:
        data: dict[str, Json] = {"digest": use.digest, "request": use.request}
        await _note(question, EventKind.CONSUMED, data, "save_uses", work, by=use.by)
    return found


async def find_grant(question: Question, work: Transaction) -> Grant | None:
    """The grant that is valid now for the action of a question; if there are several, the one that lasts longest."""
    query = grant_query(question)
    rows = await work(
        "grants_for", **{name: query[name] for name in ("workspace", "asker", "tool", "digest")}
    )
    found = [(stored_grant(row), right_of(row), instant(row["now"])) for row in rows]
    allowed = [each for each in found if each[0].scope in query["scopes"]]
    people = {(question.workspace, grant.granted_by) for grant, _, _ in allowed}
    rights = (await rights_of(people, groups_asked([question]), work)).get(
        question.workspace, Rights({}, set())
    )
    valid = [
        grant
        for grant, right, now in allowed
        if grant.holds(now, question.conversation)
        and is_still_right(question, grant.granted_by, right, known=rights.known, disabled=rights.disabled)
    ]
    return max(valid, key=lambda grant: grant.expires_at, default=None)


async def revoke(workspace: str, grant_id: str, work: Transaction, *, by: str) -> Grant | None:
    """End a grant, unless that was done before; None if there is none."""
    rows = await work("revoke", workspace=workspace, id=grant_id, actor=by)
    if rows:
        question = Ref(workspace, rows[0]["question_id"])
        await work.write({"add_events": [event_values(question, EventKind.REVOKED, {"grant": grant_id}, by)]})
    else:
        rows = await work("read_grant", workspace=workspace, id=grant_id)
    return stored_grant(rows[0]) if rows else None


async def join(ref: Ref, work: Transaction, *, by: str, key: str) -> bool:
    """Make a key stand for a pending question too; return whether it does not stand for another one."""
    values = {**ref._asdict(), "actor": by, "key": key, "data": json_text({"key": key})}
    return bool(await work.fetch_each("join", [values]))


async def claim_sending(ref: Ref, work: Transaction, *, by: str, lease: timedelta) -> bool:
    """Claim the task of showing a question in a chat; return whether nobody else has it."""
    return bool(await work("claim_sending", **ref._asdict(), actor=by, lease=lease))


async def mark_sent(ref: Ref, work: Transaction, *, by: str, channel: str | None) -> bool:
    """Record that a question was shown in a chat; return whether it was not shown before."""
    if not await work("mark_sent", **ref._asdict(), actor=by):
        return False
    await work.write({"add_events": [event_values(ref, EventKind.SENT, {}, by, channel=channel)]})
    return True


async def take_back(ref: Ref, work: Transaction, *, by: str, reason: str | None) -> bool:
    """Take an approval back; return whether that was possible."""
    rows = await work.fetch_each("lock_settled", [ref._asdict()])
    person = await work.fetch_each("rights", [{"workspace": ref.workspace, "id": by}])
    is_admin = any(row["role"] == "admin" and not row["is_disabled"] for row in person)
    if not rows or not can_be_taken_back(question := stored_question(rows[0]), by, administrator=is_admin):
        return False
    data: dict[str, Json] = {} if reason is None else {"reason": reason}
    await _note(question, EventKind.TAKEN_BACK, data, "save_taken_back", work, by=by)
    return True


async def report(ref: Ref, work: Transaction, *, by: str, record: dict[str, Json]) -> bool:
    """Record what came of an answer; return whether that was possible."""
    rows = await work.fetch_each("lock_settled", [ref._asdict()])
    if not rows or not can_be_reported(question := stored_question(rows[0]), by):
        return False
    await _note(question, EventKind.REPORTED, record, "save_reports", work, by=by)
    return True


async def _note(
    question: Question, kind: EventKind, data: dict[str, Json], name: str, work: Transaction, *, by: str
) -> None:
    """Store what happened after a question had ended, by this statement, with its event."""
    change = Change(question=question, kind=kind, data=data, by=by)
    values = {**question.ref._asdict(), "data": json_text(data)}
    await work.write({name: [values], "add_events": [_event_values(change, kind)]})


async def _use_facts(question: Question, grant_id: str | None, use: Use, work: Transaction) -> UseFacts:
    """What decides about a use; the approval came from this grant, if it came from one."""
    ending = None if use.decided_by is None else use.decided_by.ending
    asked = {
        **question.ref._asdict(),
        "rule": None if ending is None else ending.rule,
        "actor": use.by,
        "digest": use.digest,
        "request": use.request,
    }
    [row] = await work.fetch_each("use_facts", [asked])
    endings = await work.fetch_each("endings_of", [question.ref._asdict()])
    grants: dict[Ref, tuple[Grant, Right]] = {}
    rights = Rights({}, set())
    outcome = question.outcome
    if isinstance(outcome, Answered) and outcome.source == "grant":
        grants = await _grants_used([Ref(question.workspace, grant_id or "")], work)
        givers = {(question.workspace, grant.granted_by) for grant, _ in grants.values()}
        found = await rights_of(givers, groups_asked([question]), work)
        rights = found.get(question.workspace, rights)
    return UseFacts(
        now=instant(row["now"]),
        endings=[SealedEnding(each["kind"], from_json(each["data"])) for each in endings],
        stops=await stops_in([question.workspace], work),
        policy_version=row["policy_version"] or 0,
        is_rule_suspended=bool(row["is_rule_suspended"]),
        is_repeated=use.request is not None and bool(row["is_repeated"]),
        grant=next(iter(grants.values()), None),
        known=rights.known,
        disabled=rights.disabled,
    )


async def _write(changes: Sequence[Change], work: Transaction) -> None:
    if not changes:
        return
    suspended = [each for each in changes if each.suspends is not None]
    contradicted = [(each, each.contradicts) for each in changes if each.contradicts is not None]
    await work.write(
        {
            "save_questions": list(map(_question_values, changes)),
            "leave_inbox": [each.question.ref._asdict() for each in changes if each.has_ended],
            "save_inbox": [
                _inbox_values(each.question.ref, entry) for each in changes for entry in each.inbox
            ],
            "add_grants": [_grant_values(*each.grant) for each in changes if each.grant is not None],
            "suspend_rules": [
                {**each.question.ref._asdict(), "rule": each.suspends, "actor": each.by} for each in suspended
            ],
            "end_standing": [
                {
                    "workspace": ended.workspace,
                    "id": ended.id,
                    "actor": each.by,
                    "contradicted_in": each.question.id,
                }
                for each, ended in contradicted
            ],
            "add_events": [
                *(_event_values(each, each.kind) for each in changes if each.kind is not None),
                *(_contradiction_values(each, ended) for each, ended in contradicted),
            ],
        }
    )


async def _facts(locked: Sequence[_Locked], work: Transaction) -> dict[Ref, Facts]:
    """What decides about these questions, read now that they are locked."""
    used = {Ref(each.question.workspace, each.move.grant_id) for each in locked if each.move.grant_id}
    grants = await _grants_used(used, work)
    rights = await _rights(locked, grants, work)
    stops = await stops_in({each.question.workspace for each in locked if each.row["has_stops"]}, work)
    standing = await _standing_checked(locked, work)
    facts = {}
    for move, question, row, ballots in locked:
        known, disabled = rights.get(question.workspace, ({}, set()))
        ruling = question.ruling
        facts[question.ref] = Facts(
            now=instant(row["now"]),
            known=known,
            disabled=disabled | {move.by} if row["is_disabled"] else disabled,
            stops=[each for each in stops if each.workspace == question.workspace],
            ballots=ballots,
            grant=None if move.grant_id is None else grants.get(Ref(question.workspace, move.grant_id)),
            standing=standing.get(Ref(question.workspace, ruling.standing or "")) if ruling else None,
        )
    return facts


async def stops_in(workspaces: Collection[str], work: Transaction) -> list[Stop]:
    """What is stopped in these workspaces."""
    rows = await work.fetch_each("stops_in", [{"workspace": each} for each in sorted(workspaces)])
    return [stored_stop(row) for row in rows]


async def _grants_used(places: Collection[Ref], work: Transaction) -> dict[Ref, tuple[Grant, Right]]:
    """These grants, locked: a revocation that was acknowledged is seen, and a later one waits."""
    rows = await work.fetch_each("grants_used", [place._asdict() for place in sorted(places)])
    return {Ref(row["workspace"], row["id"]): (stored_grant(row), right_of(row)) for row in rows}


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
) -> dict[str, Rights]:
    """What the directories say about those who take part, where that matters."""
    concerned = [each for each in locked if _is_about_rights(each)]
    people = {
        (question.workspace, name) for move, question, _, ballots in concerned for name in (move.by, *ballots)
    }
    people |= {(ref.workspace, grant.granted_by) for ref, (grant, _) in grants.items()}
    return await rights_of(people, groups_asked([each.question for each in concerned]), work)


def groups_asked(questions: Iterable[Question]) -> set[tuple[str, str]]:
    """The groups that are asked, or that must agree, each with its workspace."""
    return {
        (question.workspace, name.removeprefix(GROUP))
        for question in questions
        for name in (*question.eligible, *(each for need in question.needs for each in need.people))
        if name.startswith(GROUP)
    }


async def rights_of(
    people: Collection[tuple[str, str]], groups: Collection[tuple[str, str]], work: Transaction
) -> dict[str, Rights]:
    """What the directories say about people, by workspace: locked first, then read, so that it stays so."""
    named = [{"workspace": workspace, "id": name} for workspace, name in sorted(people)]
    in_groups = [{"workspace": workspace, "group_name": name} for workspace, name in sorted(groups)]
    await work.fetch_each("lock_people", named)
    await work.fetch_each("share_groups", in_groups)
    rights: dict[str, Rights] = {}
    for row in await work.fetch_each("rights", named):
        found = rights.setdefault(row["workspace"], Rights({}, set()))
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


def right_of(row: Row) -> Right:
    """The right of who gave a grant or a standing answer, from its row."""
    return _right(row["giver_backed"], from_json(row["giver_groups"]) or [])


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
        "steps_taken": question.steps_taken,
        "stepped_at": question.stepped_at,
        "follows": question.follows,
    }


def _ballots_stored(ballots: Mapping[str, Ballot]) -> dict[str, Any]:
    return {
        person: {
            "backed": ballot.right.backed,
            "groups": named_groups(ballot.right.groups),
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


def _inbox_values(ref: Ref, entry: InboxEntry) -> Values:
    return {**ref._asdict(), **entry._asdict(), "aside": _aside_stored(entry.aside)}


def _event_values(change: Change, kind: EventKind) -> Values:
    return event_values(change.question.ref, kind, change.data, change.by, channel=change.channel)


def event_values(
    ref: Ref, kind: EventKind, data: Mapping[str, Json], by: str | None, *, channel: str | None = None
) -> Values:
    """An event of a question as the columns of its row."""
    return {
        **ref._asdict(),
        "kind": kind.value,
        "actor": by,
        "channel": channel,
        "data": json_text(dict(data)) if data else None,
        "key": None,
    }


def _contradiction_values(change: Change, ended: StandingAnswer) -> Values:
    """The event of the question whose answer is not kept any more."""
    data = {"standing": ended.id, "question": change.question.id}
    return event_values(Ref(ended.workspace, ended.question_id), EventKind.REVOKED, data, change.by)


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
        "giver_groups": json_text(named_groups(right.groups)),
        "giver_backed": right.backed,
    }


def named_groups(groups: Iterable[str]) -> list[str]:
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
