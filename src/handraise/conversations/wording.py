"""The texts that people read in a chat. Plain text: what an agent or a person wrote stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from handraise import (
    Approval,
    Choice,
    Confirm,
    Form,
    MultiChoice,
    Open,
    Option,
    Outcome,
    Question,
    Status,
)
from handraise.model.json_values import canonical_json


def asking(question: Question) -> str:
    """A question as a person in a chat sees it, with what they can reply."""
    return "\n".join((question.prompt, *_hints(question)))


def asking_again(question: Question, reason: str) -> str:
    """The same question once more, with what was wrong with the reply."""
    return f"I cannot take that as an answer: {reason.rstrip('. ')}.\n{asking(question)}"


def giving_up(question: Question) -> str:
    """That the question is left out, because no reply could be used."""
    return f"I did not get an answer that I can use, so I leave this out for now: {question.prompt}"


def too_late(outcome: Outcome) -> str:
    """That the question ended before this reply; what others answered is not told."""
    match outcome.status:
        case Status.ANSWERED:
            ended = "has already been answered"
        case Status.DECLINED:
            ended = "has already been declined"
        case Status.EXPIRED:
            ended = "has expired"
        case Status.WITHDRAWN:
            ended = "was withdrawn"
        case Status.EXHAUSTED | Status.PENDING:
            ended = "is closed"
        case _:
            assert_never(outcome.status)
    return f"That question {ended}, so your reply was not used."


def _hints(question: Question) -> Iterator[str]:
    match question.form:
        case Open():
            pass
        case Confirm():
            yield "Reply with yes or no."
        case Choice(options=options, allow_other=allow_other):
            yield from _numbered(options)
            if allow_other:
                yield "Or reply with “other:” and your own answer."
        case MultiChoice(options=options):
            yield from _numbered(options)
            yield "Reply with the numbers, with commas between."
        case Form(fields=fields):
            yield "Reply with one line for each:"
            yield from (f"{entry.name}: {entry.title or entry.description or '…'}" for entry in fields)
        case Approval(action=action):
            yield f"{action.tool} {canonical_json(action.arguments)}"
            yield "Reply with “approve”, or with “deny: ” and the reason."
        case _:
            assert_never(question.form)


def _numbered(options: Sequence[Option]) -> Iterator[str]:
    for place, option in enumerate(options, 1):
        yield f"{place}. {option.label}" + (f": {option.description}" if option.description else "")
