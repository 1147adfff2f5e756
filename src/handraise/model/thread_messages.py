"""Threads: what people and the asker write to each other while a question is pending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, cast, get_args

from handraise.model.attachments import Attachment, attached_in, attachments_from_json, list_problems
from handraise.model.drafting import Limits
from handraise.model.errors import InvalidMessage
from handraise.model.events import Event, EventKind
from handraise.model.forms import takes_files
from handraise.model.json_values import Json, digest, text_problem
from handraise.model.problems import Problem
from handraise.model.questions import Question

MessageKind = Literal["asked_back", "noted", "replied"]
"""A person asked the asker something, or noted something for the other people; the asker replied."""

MESSAGE_KINDS = frozenset(get_args(MessageKind))
MOST_MESSAGES = 200
"""How many messages a thread has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadMessage:
    """One message of a question's thread. `number` is its place, from 1.

    `by` is the person, or the asker if it `replied`. An agent does not see the text of a note: it is empty.
    """

    number: int
    kind: MessageKind
    by: str
    at: datetime
    text: str = field(repr=False)
    channel: str | None = None
    attachments: tuple[Attachment, ...] = ()


def messages_of(history: Iterable[Event]) -> tuple[ThreadMessage, ...]:
    """The thread of a question, from its history."""
    said = (event for event in history if event.kind in MESSAGE_KINDS)
    return tuple(
        ThreadMessage(
            number=number,
            kind=cast("MessageKind", event.kind.value),
            by=event.by or "",
            at=event.at,
            text=(event.data or {}).get("text", ""),
            channel=event.channel,
            attachments=attachments_from_json((event.data or {}).get("attachments", ())),
        )
        for number, event in enumerate(said, 1)
    )


def attached_to(question: Question, history: Iterable[Event]) -> tuple[Attachment, ...]:
    """All files that belong to a question: its own, those of its messages, and those of votes and answers."""
    found = list(question.attachments)
    for event in history:
        data = event.data or {}
        if event.kind in MESSAGE_KINDS:
            found += attachments_from_json(data.get("attachments", ()))
        elif event.kind in (EventKind.VOTED, EventKind.ANSWERED) and takes_files(question.form):
            found += attached_in(data.get("value"))
    return tuple({(each.digest, each.name): each for each in found}.values())


def unanswered(history: Sequence[Event]) -> Sequence[ThreadMessage]:
    """The messages of a question's thread that wait for the asker's reply."""
    last = replied_to(history)
    return [each for each in messages_of(history) if each.kind == "asked_back" and each.number > last]


def replied_to(history: Sequence[Event]) -> int:
    """The number of the last message that the asker has replied to; 0 if there is none."""
    return max(
        ((event.data or {}).get("replies_to", 0) for event in history if event.kind is EventKind.REPLIED),
        default=0,
    )


def thread_digest(messages: Sequence[ThreadMessage]) -> str | None:
    """The digest of a thread as a person saw it; None if nobody had written anything."""
    return digest_of_thread(
        [
            digested_message(each.kind, each.by, each.text, [file.record() for file in each.attachments])
            for each in messages
        ]
    )


def digested_message(kind: str, by: str, text: str, attachments: Sequence[Json]) -> Sequence[Json]:
    """What the digest of a thread covers of a message: its kind, its author, its text, and its files if it has any."""
    return [kind, by, text, list(attachments)] if attachments else [kind, by, text]


def digest_of_thread(messages: Sequence[Sequence[Json]]) -> str | None:
    """The digest of a thread, from `digested_message` of each of its messages."""
    return digest(["handraise thread", *map(list, messages)]) if messages else None


def without_notes(event: Event) -> Event:
    """An event as an agent may see it: what people note for each other is not for the asker."""
    return replace(event, data=None) if event.kind is EventKind.NOTED else event


def check_attachments(limits: Limits, attachments: Sequence[object]) -> None:
    """Raise `InvalidMessage` if a message cannot have these files."""
    problems = list(
        list_problems(
            attachments,
            "attachments",
            most_files=limits.files,
            most_bytes=limits.file_bytes,
            most_together=limits.files_bytes,
        )
    )
    if problems:
        raise InvalidMessage(problems)


def check_message(limits: Limits, text: object) -> None:
    """Raise `InvalidMessage` if this text cannot be kept or shown."""
    if not isinstance(text, str):
        raise InvalidMessage([Problem("text", "expected a text")])
    if not text.strip():
        raise InvalidMessage([Problem("text", "is empty: write something")])
    if why := text_problem(text):
        raise InvalidMessage([Problem("text", why)])
    if len(text) > limits.prompt:
        raise InvalidMessage([Problem("text", f"has more than {limits.prompt} characters")])


def check_room(question: Question) -> None:
    """Raise `InvalidMessage` if the thread is full. People can still answer, decline and withdraw."""
    if question.thread >= MOST_MESSAGES:
        raise InvalidMessage(
            [Problem("text", f"the thread has {MOST_MESSAGES} messages already: decide, or decline")]
        )
