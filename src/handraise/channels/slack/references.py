"""Which question a button, a menu, a view or a thread is about: what we wrote into it when we sent it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from handraise.channels import chat_references
from handraise.channels.chat_references import seen_in
from handraise.model.json_values import Json, canonical_json
from handraise.model.questions import Draft

EVENT = "handraise_question"
"""The name of what a message carries besides its blocks."""


@dataclass(frozen=True, slots=True)
class QuestionReference(chat_references.QuestionReference):
    """A question, and whatever else belongs to what was pressed."""

    extra: Json = None

    @property
    def digest(self) -> Json:
        """The action that is decided, as its message showed it."""
        return self.extra.get("digest") if isinstance(self.extra, dict) else self.extra

    @property
    def seen(self) -> int | None:
        """How many messages of the thread the message showed."""
        return seen_in(self.extra.get("seen")) if isinstance(self.extra, dict) else None


def decision_extra(digest: Json, seen: int | None, **more: Json) -> Json:
    """What belongs to a decision: the action, and how much of the conversation the message showed."""
    if not seen and not more:
        return digest
    return {"digest": digest, **more, **({"seen": seen} if seen else {})}


def format_reference(question: Draft, extra: Json = None) -> str:
    """A place as it is written into something that can be pressed."""
    what = [question.workspace, question.id]
    return canonical_json(what if extra is None else [*what, extra])


def parse_reference(text: object) -> QuestionReference | None:
    """The place in what Slack sent back, or None if it is not ours."""
    try:
        read = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    match read:
        case [str(workspace), str(question_id), *rest] if len(rest) <= 1:
            found = QuestionReference(workspace, question_id, rest[0] if rest else None)
            return found if found.is_readable else None
        case _:
            return None


def build_metadata(question: Draft, seen: int | None = None) -> Json:
    """What a message carries so that a reply in its thread finds its question, and how much of it was seen."""
    place: dict[str, Json] = {"workspace": question.workspace, "question": question.id}
    return {"event_type": EVENT, "event_payload": place | ({"seen": seen} if seen else {})}


def parse_metadata(metadata: object) -> QuestionReference | None:
    """The place in what a message carries, or None if it carries none of ours."""
    match metadata:
        case {
            "event_type": "handraise_question",
            "event_payload": {"workspace": str(workspace), "question": str(question_id), **rest},
        }:
            found = QuestionReference(workspace, question_id, {"seen": rest.get("seen")})
            return found if found.is_readable else None
        case _:
            return None
