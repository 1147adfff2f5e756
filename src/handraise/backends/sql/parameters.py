"""The model's values as the parameters of statements, for the SQL backends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any, get_type_hints

import pydantic_core

from handraise.model.attachments import Attachment
from handraise.model.callbacks import Callback
from handraise.model.deliveries import (
    CALLBACK_CHANNEL,
    Delivery,
    Try,
    callback_destination,
    callback_id,
    callback_rate_limit_key,
)
from handraise.model.forms import AnyForm, Approval, form_to_json
from handraise.model.json_values import Json
from handraise.model.pending_views import Order
from handraise.model.people import GROUP, Responder
from handraise.model.questions import Draft, Need, Question
from handraise.model.rulings import Ruling
from handraise.model.seals import SALT, Seal
from handraise.model.search_words import asker_tag, conversation_tag, responder_tags, workspace_tag
from handraise.model.timelines import Step, steps_to_json
from handraise.model.urgency import RISKS, SOON, Walk
from handraise.model.workspace_events import Change
from handraise.ports import MAX_EVENTS_SCANNED, MAX_PLACES_COUNTED, MAX_PLACES_SCANNED, Filter

FOR_GOOD = 253_402_300_799_000_000
"""The instant that stands for never: the end of the year 9999, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class AsJson:
    """A parameter that is passed as JSON text. Its instants and spans are written in the engine's own form."""

    value: Any


def to_json(value: Json) -> str | None:
    """The stored text of a JSON value; None is stored as null."""
    return None if value is None else json_text(value)


def json_text(value: Json) -> str:
    """The text of a JSON value."""
    return pydantic_core.to_json(value).decode()  # six times as fast as `json.dumps`


def _needs_text(needs: tuple[Need, ...]) -> str | None:
    return json_text([asdict(each) for each in needs]) if needs else None


def _attachments_text(attachments: tuple[Attachment, ...]) -> str | None:
    return json_text([each.record() for each in attachments]) if attachments else None


def _ruling_text(ruling: Ruling | None) -> str | None:
    return ruling.text if ruling is not None and ruling.is_stored else None


def _steps_text(steps: tuple[Step, ...]) -> str | None:
    return json_text(steps_to_json(steps)) if steps else None


_WRITERS: dict[Any, Callable[[Any], Any]] = {
    Json: to_json,
    AnyForm: form_to_json,
    tuple[str, ...]: json_text,
    tuple[Step, ...]: _steps_text,
    tuple[Need, ...]: _needs_text,
    Ruling | None: _ruling_text,
    tuple[Attachment, ...]: _attachments_text,
}
_HINTS = get_type_hints(Draft, include_extras=True)
_DRAFT_FIELDS = tuple(each.name for each in fields(Draft) if each.name != "callback")
_DRAFT_WRITERS = {name: _WRITERS[_HINTS[name]] for name in _DRAFT_FIELDS if _HINTS[name] in _WRITERS} | {
    "undo_for": lambda seconds: seconds or None,
    "added": lambda added: json_text(added) if added else None,
}
_POLICY_COLUMNS = ("policy_version", "rule", "ended_as", "ended_with", "standing")
_draft_fields = attrgetter(*_DRAFT_FIELDS)


def draft_columns(drafts: Sequence[Draft]) -> dict[str, list[Any] | None]:
    """Drafts as the columns of their rows, which have the same names as their fields; None if a column is null in all."""
    columns = dict(
        zip(_DRAFT_FIELDS, map(_column, zip(*map(_draft_fields, drafts), strict=True)), strict=True)
    )
    for name, write in _DRAFT_WRITERS.items():
        if (column := columns[name]) is not None:
            columns[name] = _column([write(value) for value in column])
    columns["topic_key"] = columns["topic"] and _column([draft.topic_key for draft in drafts])
    columns["expire_after"] = columns["steps"] and _column([_expire_after(draft.steps) for draft in drafts])
    if any(draft.ruling is not None for draft in drafts):
        decided = list(map(policy_values, drafts))
        return columns | {name: _column([each[name] for each in decided]) for name in _POLICY_COLUMNS}
    return columns | dict.fromkeys(_POLICY_COLUMNS) | {"policy_version": [0] * len(drafts)}


def draft_rows(drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    """Drafts as the columns of their rows, one row for each."""
    columns = draft_columns(drafts)
    nulls = [None] * len(drafts)
    values = zip(*(nulls if column is None else column for column in columns.values()), strict=True)
    return [dict(zip(columns, each, strict=True)) for each in values]


def _column(values: Sequence[Any]) -> list[Any] | None:
    """The values of a column, or None if all are null: drivers take one null sooner than an array of them."""
    return None if values[0] is None and values.count(None) == len(values) else list(values)


def _expire_after(steps: tuple[Step, ...]) -> float | None:
    return steps[-1].after.total_seconds() if steps and steps[-1].ends else None


def policy_values(draft: Draft) -> dict[str, Any]:
    """What was decided about a draft when it was posted, and by which version, rule or standing answer."""
    ending = None if draft.ruling is None else draft.ruling.ending
    return {
        **ruling_values(draft.ruling),
        "ended_as": None if ending is None else ending.status,
        "ended_with": None if ending is None else json_text(ending.record),
        "standing": None if ending is None else ending.standing,
    }


def ruling_values(ruling: Ruling | None) -> dict[str, Any]:
    """The version of the policy, 0 for none, and the digest of the rule that settles a question, if one does."""
    ending = None if ruling is None else ruling.ending
    return {
        "policy_version": 0 if ruling is None else ruling.version,
        "rule": None if ending is None else ending.rule,
    }


def grant_query(question: Question) -> dict[str, Any]:
    """The parameters that find a grant for the action that a question asks about."""
    form = question.form
    if not isinstance(form, Approval):
        raise TypeError(f"a grant answers an approval, not a form of kind {form.kind!r}")
    return {
        "workspace": question.workspace,
        "id": question.id,
        "asker": question.asker,
        "tool": form.action.tool,
        "digest": form.grant_digest(form.action, question.recipients),
        "conversation": question.conversation,
        "scopes": list(form.scopes),
    }


def page_query(where: Filter, *, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement whose index fits a filter best, and its parameters."""
    if where.conversation is not None:
        name = "pending_by_conversation"
    elif where.recipient is not None:
        name = "pending_by_recipient"
    elif where.asker is not None:
        name = "pending_by_asker"
    else:
        name = "pending_all"
    return name, {
        "workspace": where.workspace,
        "conversation": where.conversation,
        "asker": where.asker,
        "person": where.recipient.id if where.recipient else None,
        "principals": _names_of(where),
        "aside": where.aside,
        "after": after or "",
        "limit": limit,
    }


def _names_of(where: Filter) -> list[str]:
    """Under which names a person's questions are in the inbox."""
    if where.recipient is None:
        return []
    return [*([] if where.by_name else ["*"]), *where.recipient.principals]


def urgent_query(where: Filter, *, limit: int) -> tuple[str, dict[str, Any]]:
    """The same for places in the order of urgency, except for the walks; an extra row shows that there are more."""
    name, values = page_query(where, after=None, limit=limit + 1)
    if where.conversation is None and where.asker is not None:
        name = "pending_by_asker"
    return name.replace("pending", "urgent"), values


def walks_query(walks: Sequence[Walk]) -> dict[str, list[Any]]:
    """The parameters of walks that one statement makes."""
    return {
        "ranks": [each.rank for each in walks],
        "afters": [each.after for each in walks],
        "untils": [each.until for each in walks],
    }


def is_indexed(where: Filter, order: Order) -> bool:
    """Whether an index has exactly this list, so that it needs no view."""
    return order == "urgency" and not where.filters.any


def view_query(where: Filter, *, limit: int, order: Order) -> dict[str, Any]:
    """The parameters of a page of a view, except for the walks; an extra row shows that there are more."""
    _, values = page_query(where, after=None, limit=limit + 1)
    filters = where.filters
    return {
        **values,
        "aside": where.aside or filters.view == "snoozed",
        "order": order,
        "soon": SOON,
        "view": filters.view,
        "kind": filters.kind,
        "risk": None if filters.risk is None else RISKS[filters.risk],
        "tool": filters.tool,
        "expires_within": filters.expires_within,
        "older_than": filters.older_than,
        "scanned": MAX_PLACES_SCANNED,
    }


def count_query(recipient: Responder) -> dict[str, Any]:
    """The parameters that count a person's questions by view."""
    return {
        "person": recipient.id,
        "principals": ["*", *recipient.principals],
        "scanned": MAX_PLACES_COUNTED,
        "soon": SOON,
    }


def settled_query(where: Filter, *, limit: int) -> dict[str, Any]:
    """The parameters of a page of settled questions except its place; an extra row shows that there are more."""
    return {
        "workspace": where.workspace,
        "conversation": where.conversation,
        "asker": where.asker,
        "person": where.recipient.id if where.recipient else None,
        "principals": list(where.recipient.principals) if where.recipient else [],
        "since": where.ending.since,
        "until": where.ending.until,
        "kinds": list(where.ending.kinds),
        "decision": where.ending.decision,
        "settled_by": where.ending.by,
        "ways": None if where.ending.ways is None else list(where.ending.ways),
        "channel": where.ending.channel,
        "tool": where.ending.tool,
        "risk": where.ending.risk,
        "group_name": None if where.ending.group is None else f"{GROUP}{where.ending.group}",
        "took_at_least": where.ending.took_at_least,
        "took_less": where.ending.took_less,
        "is_late": where.ending.is_late,
        "has_failed": where.ending.has_failed,
        "looked": MAX_EVENTS_SCANNED,
        "limit": limit + 1,
    }


def search_values(where: Filter, *, after: str | None, limit: int) -> tuple[dict[str, Any], list[list[str]]]:
    """The parameters of a search except its words; and lists of tags, of each of which a question must have one."""
    tags = [[workspace_tag(where.workspace)]]
    if where.asker is not None:
        tags.append([asker_tag(where.asker)])
    if where.conversation is not None:
        tags.append([conversation_tag(where.conversation)])
    if where.recipient is not None:
        tags.append(responder_tags(where.recipient))
    values = {
        "workspace": where.workspace,
        "conversation": where.conversation,
        "asker": where.asker,
        "person": where.recipient.id if where.recipient else None,
        "principals": list(where.recipient.principals) if where.recipient else [],
        "after": after,
        "limit": limit + 1,
    }
    return values, tags


def change_values(change: Change) -> dict[str, Any]:
    """An event of a workspace as the columns of its row."""
    return {
        "kind": change.kind.value,
        "actor": change.by,
        "data": to_json(change.stored(os.urandom(SALT))),
    }


def delivery_values(delivery: Delivery, asker: str) -> dict[str, Any]:
    """A planned delivery as the columns of its row, with who asked."""
    names = ("id", "question_id", "recipient", "channel", "reason", "rate_limit_key", "bundle", "due_at")
    values = {name: getattr(delivery, name) for name in names}
    return {**values, "asker": asker, "destination": json_text(delivery.to)}


def callback_values(draft: Draft, callback: Callback) -> dict[str, Any]:
    """The callback of a draft as the columns of its delivery."""
    return {
        "workspace": draft.workspace,
        "id": callback_id(draft.ref),
        "question_id": draft.id,
        "asker": draft.asker,
        "channel": CALLBACK_CHANNEL,
        "rate_limit_key": callback_rate_limit_key(callback),
        "destination": json_text(callback_destination(callback)),
    }


def try_values(tried: Try) -> dict[str, Any]:
    """The result of an attempt, with the turn of the delivery that it belongs to."""
    return {
        "id": tried.delivery.id,
        "turn": tried.delivery.turn,
        "status": tried.status,
        "receipt": to_json(tried.receipt),
        "problem": tried.problem,
        "again_after": tried.again_after,
    }


def seal_values(seal: Seal) -> dict[str, Any]:
    """A seal as the columns of its row, except for its place, which engines write differently."""
    names = ("number", "oldest", "previous", "sealed_at", "signature", "key_id")
    values = {name: getattr(seal, name) for name in names}
    return {**values, "leaves": b"".join(seal.leaves), "cursors": ",".join(seal.cursors)}
