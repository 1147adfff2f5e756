"""The order of pending questions: escalated first, then by expiry, by risk, and by age; last those that wait for their asker.

A store keeps one number with each pending question and indexes it; equal numbers are ordered by the
question's id, which is time-ordered. The number changes only when the question is escalated, or when it becomes or was
the asker's turn, so pages are stable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime, timedelta

from handraise.model.questions import Draft, Question

FOLD = 20
"""If one asker has more equal questions than this, they are one row of a list."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOT_ESCALATED = 2**50
ASKERS_TURN = 2**51
_NEVER = 2**40
RISKS = {"high": 0, "medium": 1, "low": 2, None: 3}


def is_escalated(question: Question) -> bool:
    """Whether it was escalated because nobody answered."""
    return any(step.do == "escalate" for step in question.steps[: question.steps_taken])


def urgency_of(question: Question) -> int:
    """The rank of a question among the pending ones: the smaller, the more urgent."""
    last = question.steps[-1] if question.steps else None
    seconds = _NEVER
    if last is not None and last.ends:
        # The planned end: a delay by a late step does not change the order.
        seconds = (question.asked_at + last.after - _EPOCH) // timedelta(seconds=1)
    waiting = (0 if is_escalated(question) else NOT_ESCALATED) + 4 * seconds + RISKS[question.risk]
    return waiting + ASKERS_TURN if question.is_askers_turn else waiting


def folded(places: Iterable[tuple[str, Hashable]]) -> list[tuple[str, ...]]:
    """The ids of questions in their order, each with the number that equal questions share.

    If more than `FOLD` are equal, they are put together at the place of the first. None equals nothing.
    """
    known: dict[Hashable, list[str]] = {}
    order: list[tuple[str, Hashable]] = []
    for question_id, likeness in places:
        order.append((question_id, likeness))
        if likeness is not None:
            known.setdefault(likeness, []).append(question_id)
    rows: list[tuple[str, ...]] = []
    done: set[Hashable] = set()
    for question_id, likeness in order:
        if likeness is None or len(known[likeness]) <= FOLD:
            rows.append((question_id,))
        elif likeness not in done:
            done.add(likeness)
            rows.append(tuple(known[likeness]))
    return rows


def urgency_without_expiry(draft: Draft) -> int:
    """The base of the rank: when a store registers a draft, it adds the expiry in seconds, times four."""
    return NOT_ESCALATED + RISKS[draft.risk]


def likeness_of(draft: Draft, form: str) -> int:
    """The same number for questions of one asker with the same text and the same form, here as JSON."""
    asked = f"{draft.asker}\n{draft.prompt}\n{form}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(asked, digest_size=8).digest(), signed=True)
