"""Asking questions: read the facts, let the model decide, and save what is new, in one transaction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_values
from typing import Any, NamedTuple

from handraise.backends.sql.decided_changes import (
    Rights,
    lock_replaced,
    replace,
    right_of,
    rights_of,
    rounds_of,
    stops_in,
)
from handraise.backends.sql.parameters import callback_values, draft_rows, json_text
from handraise.backends.sql.rows import (
    Row,
    instant,
    stored_question,
    stored_standing_answer,
)
from handraise.backends.sql.transactions import Transaction, Values
from handraise.model.ask_decisions import AskFacts, check_ask
from handraise.model.errors import StoreUnavailable
from handraise.model.inbox_entries import inbox_of
from handraise.model.json_values import Json
from handraise.model.lifecycle import already_replaced, same_question
from handraise.model.people import GROUP
from handraise.model.questions import Draft, Question, Ref, posted
from handraise.model.stops import tool_of
from handraise.model.urgency import likeness_of
from handraise.ports.store import Inserted

Asker = tuple[str, str]


class Asked(NamedTuple):
    """What became of drafts, and how many more questions each asker that was counted may have; None for any number."""

    results: Sequence[Inserted]
    room: Mapping[Asker, int | None]


async def ask(drafts: Sequence[Draft], work: Transaction, *, quota: int | None, counted: bool) -> Asked:
    """Register drafts. Two with one key, or one topic, come one after the other: a later one sees the one before.

    Unless pending questions are `counted`, no quota holds. `quota` is that of who has none of the workspace's.
    """
    results: dict[int, Inserted] = {}
    room: dict[Asker, int | None] = {}
    for places in rounds_of([_touched(draft) for draft in drafts]):
        asked = await _ask_once([drafts[place] for place in places], work, quota=quota, counted=counted)
        results.update(zip(places, asked.results, strict=True))
        room.update(asked.room)
    return Asked([results[place] for place in range(len(drafts))], room)


def _touched(draft: Draft) -> tuple[Ref, ...]:
    """The places that a draft takes. They are always taken in the same order, so that two batches never wait for each other."""
    taken = [draft.ref]
    if draft.key is not None:
        taken.append(Ref(draft.workspace, f"key {draft.key_owner} {draft.key}"))
    if draft.replaces is not None:
        taken.append(Ref(draft.workspace, f"replaces {draft.asker} {draft.replaces}"))
    if (topic_key := draft.topic_key) is not None:
        taken.append(Ref(draft.workspace, f"topic {topic_key}"))
    return tuple(reversed(taken))


async def _ask_once(drafts: Sequence[Draft], work: Transaction, *, quota: int | None, counted: bool) -> Asked:
    rows = {draft.ref: values for draft, values in zip(drafts, draft_rows(drafts), strict=True)}
    facts = await _facts_of(drafts, rows, work)
    results = await _existing(drafts, facts, work)
    new = [draft for draft in drafts if draft.ref not in results]
    checks = await _ask_facts(new, facts, work)
    room: dict[Asker, int | None] = {}
    pending: Counter[Asker] = Counter()
    if counted:
        room = await _room(new, facts, quota, work)
    accepted: list[Draft] = []
    for draft in new:
        asker, check = (draft.workspace, draft.asker), checks[draft.ref]
        left = room.get(asker)
        if left is not None:
            own = facts[draft.ref]["quota"]
            most = (quota if own is None else own) or 0
            check = with_values(check, quota=most, pending=most - left + pending[asker])
        refused = check_ask(draft, check)
        if refused is not None:
            results[draft.ref] = refused
            continue
        accepted.append(draft)
        if draft.ruling is None or draft.ruling.ending is None:
            pending[asker] += 1
    results.update(await _save(accepted, rows, facts, work))
    left_over = {asker: None if left is None else left - pending[asker] for asker, left in room.items()}
    return Asked([results[draft.ref] for draft in drafts], left_over)


async def _facts_of(
    drafts: Sequence[Draft], rows: Mapping[Ref, dict[str, Any]], work: Transaction
) -> dict[Ref, Row]:
    """What is stored already, and what holds in the workspaces, for each of these drafts."""
    asked = [
        {
            **draft.ref._asdict(),
            "owner": draft.key_owner,
            "asker": draft.asker,
            "key": draft.key,
            "rule": rows[draft.ref]["rule"],
            "replaces": draft.replaces,
        }
        for draft in drafts
    ]
    return {Ref(row["workspace"], row["id"]): row for row in await work.fetch_each("ask_facts", asked)}


async def _existing(
    drafts: Sequence[Draft], facts: Mapping[Ref, Row], work: Transaction
) -> dict[Ref, Inserted]:
    """What is stored already under the keys or ids of these drafts, or replaces what they would replace."""
    found: dict[Ref, str] = {}
    for draft in drafts:
        row = facts[draft.ref]
        stored = row["by_key"] or row["by_shared_key"] or row["by_id"]
        if stored is None and row["replaced_by"] is not None:
            stored = draft.replaces
        if stored is not None:
            found[draft.ref] = stored
    if not found:
        return {}
    places = sorted({Ref(ref.workspace, stored) for ref, stored in found.items()})
    rows = await work.fetch_each("read", [place._asdict() for place in places])
    questions = {each.ref: each for each in map(stored_question, rows)}
    results: dict[Ref, Inserted] = {}
    for draft in drafts:
        if draft.ref not in found:
            continue
        question = questions.get(Ref(draft.workspace, found[draft.ref]))
        if question is None:
            raise StoreUnavailable("The question was neither stored nor found; post it again.")
        refused = already_replaced(draft, question) if question.id == draft.replaces else None
        results[draft.ref] = refused or same_question(draft, question)
    return results


async def _ask_facts(
    drafts: Sequence[Draft], facts: Mapping[Ref, Row], work: Transaction
) -> dict[Ref, AskFacts]:
    """What else decides about these drafts: stops, and the standing answers that would settle them."""
    stops = await stops_in({draft.workspace for draft in drafts if facts[draft.ref]["has_stops"]}, work)
    standing = {
        draft.ref: Ref(draft.workspace, draft.ruling.ending.standing)
        for draft in drafts
        if draft.ruling is not None
        and draft.ruling.ending is not None
        and draft.ruling.ending.standing is not None
    }
    places = [place._asdict() for place in sorted(set(standing.values()))]
    kept = {
        Ref(row["workspace"], row["id"]): row for row in await work.fetch_each("standing_checked", places)
    }
    rights: Mapping[str, Rights] = {}
    if kept:
        people = {(ref.workspace, row["given_by"]) for ref, row in kept.items()}
        groups = {
            (draft.workspace, name.removeprefix(GROUP))
            for draft in drafts
            for name in draft.recipients
            if draft.ref in standing and name.startswith(GROUP)
        }
        rights = await rights_of(people, groups, work)
    checks = {}
    for draft in drafts:
        row, answer = facts[draft.ref], kept.get(standing.get(draft.ref, draft.ref))
        known = rights.get(draft.workspace, Rights({}, set()))
        checks[draft.ref] = AskFacts(
            now=instant(row["now"]),
            policy_version=row["policy_version"] or 0,
            is_rule_suspended=bool(row["is_rule_suspended"]),
            stops=[each for each in stops if each.workspace == draft.workspace],
            standing=None
            if answer is None or answer["topic_key"] != draft.topic_key
            else (stored_standing_answer(answer), right_of(answer)),
            known=known.known,
            disabled=known.disabled,
        )
    return checks


async def _room(
    drafts: Sequence[Draft], facts: Mapping[Ref, Row], quota: int | None, work: Transaction
) -> dict[Asker, int | None]:
    """How many more pending questions each asker of these drafts may have; None for any number."""
    quotas: dict[Asker, int] = {}
    for draft in drafts:
        own = facts[draft.ref]["quota"]
        quotas[draft.workspace, draft.asker] = (quota if own is None else own) or 0
    room: dict[Asker, int | None] = {}
    for (workspace, asker), most in sorted(quotas.items()):
        room[workspace, asker] = None
        if most:
            [row] = await work("count_asked", workspace=workspace, asker=asker, most=most)
            room[workspace, asker] = max(0, most - row["pending"])
    return room


async def _save(
    drafts: Sequence[Draft], rows: Mapping[Ref, dict[str, Any]], facts: Mapping[Ref, Row], work: Transaction
) -> dict[Ref, Question]:
    """Store new questions, with their entries in the inbox, their history and their callbacks."""
    if not drafts:
        return {}
    replaced = await lock_replaced(drafts, work)
    leaders = await _leaders([draft for draft in drafts if draft.topic is not None], work)
    new = {}
    for draft in drafts:
        question = posted(draft, instant(facts[draft.ref]["now"]))
        if question.outcome is None and draft.topic_key is not None:
            leader = leaders.get(Ref(draft.workspace, draft.topic_key))
            question = posted(draft, question.asked_at, follows=leader)
        new[draft.ref] = question
    pending = [(draft, new[draft.ref]) for draft in drafts if new[draft.ref].outcome is None]
    await work.write(
        {
            "insert_questions": [_question_values(new[draft.ref], rows[draft.ref]) for draft in drafts],
            "open_inbox": [
                values
                for draft, question in pending
                for values in _entries(question, likeness_of(draft, rows[draft.ref]["form"]))
            ],
            "add_events": [values for draft in drafts for values in _events(draft, rows[draft.ref])],
            "add_callbacks": [
                {
                    **callback_values(draft, draft.callback),
                    "created_at": new[draft.ref].asked_at,
                    "due_at": None if new[draft.ref].outcome is None else new[draft.ref].asked_at,
                }
                for draft in drafts
                if draft.callback is not None
            ],
        }
    )
    await replace(replaced, instant(facts[drafts[0].ref]["now"]), work)
    return new


async def _leaders(drafts: Sequence[Draft], work: Transaction) -> dict[Ref, str]:
    """The pending questions that others of their topics follow, by topic key; they cannot end before this is over."""
    keys = {Ref(draft.workspace, key) for draft in drafts if (key := draft.topic_key) is not None}
    topics = [{"workspace": ref.workspace, "topic_key": ref.id} for ref in sorted(keys)]
    await work.fetch_each("lock_topics", topics)
    while True:
        named = await work.fetch_each("topics_led", topics)
        led = await work.fetch_each("lock_leaders", topics) if named else []
        if len(led) == len(named):
            return {Ref(row["workspace"], row["topic_key"]): row["id"] for row in led}


def _question_values(question: Question, row: dict[str, Any]) -> Values:
    ended = row["ended_as"] is not None
    return {
        **{name: row[name] for name in _STORED},
        "quorum": question.quorum,
        "veto": question.veto,
        "shared": question.shared,
        "asked_at": question.asked_at,
        "expires_at": question.expires_at,
        "heard_at": question.heard_at,
        "follows": question.follows,
        "status": question.status.value,
        "settled_at": question.asked_at if ended else None,
        "outcome": row["ended_with"],
    }


_STORED = (
    "workspace", "id", "asker", "key", "conversation", "tool_call", "trace", "prompt", "form", "context", "state",
    "recipients", "max_attempts", "steps", "undo_for", "heartbeat", "replies", "replaces", "topic", "topic_key", "added",
    "needs", "evidence", "ruling", "attachments",
)  # fmt: skip
"""What is stored of a draft as it is."""


def _entries(question: Question, likeness: int) -> list[Values]:
    """The entries of a new question in the inbox, with what never changes."""
    return [
        {
            **question.ref._asdict(),
            "recipient": entry.recipient,
            "main": entry.main,
            "open": entry.open,
            "step": entry.step,
            "urgency": entry.urgency,
            "due_at": entry.due_at,
            "unheard_at": question.closes_at if entry.main else None,
            "topic_key": entry.topic_key,
            "follows": entry.follows,
            "likeness": likeness,
            "asker": question.asker,
            "conversation": question.conversation,
            "asked_at": question.asked_at,
            "takes_votes": question.takes_votes,
            "kind": question.form.kind,
            "tool": tool_of(question),
        }
        for entry in inbox_of(question).values()
    ]


def _events(draft: Draft, row: dict[str, Any]) -> list[Values]:
    """The history of a new question. Its key is taken there, where `join` takes it too."""
    about = {**draft.ref._asdict(), "channel": None}
    asked = {
        **about,
        "kind": "asked",
        "actor": draft.asker,
        "data": json_text({"to": list(draft.added)}) if draft.added else None,
        "key": None if draft.shared else draft.key,
    }
    if row["ended_as"] is None:
        return [asked]
    record: dict[str, Json] = json.loads(row["ended_with"])
    ended = {"kind": row["ended_as"], "actor": record.get("by"), "data": row["ended_with"], "key": None}
    return [asked, {**about, **ended}]
