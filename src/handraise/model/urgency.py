"""The order of pending questions by urgency.

1. Escalated questions.
2. Those that expire within an hour: first those of high risk.
3. The others of high risk.
4. All others, so that what expires within a day comes first.
5. Those that wait for their asker: first the escalated ones, then those of high risk.

Among themselves they are ordered by expiry, then by risk, then by age.

A store keeps one number with each pending question, its rank, and indexes it; equal ranks are ordered by the question's
id, which is time-ordered. A rank changes only when the question is escalated, or when it becomes or was the asker's
turn. By rank, high risk is before all others, however late they expire. At any moment, what expires within an hour is the
beginning of those of high risk and the beginning of the others. So a list merges two walks along the ranks, and nothing is
rewritten when the last hour of a question begins. The pages of a list keep the moment of its first page, so they are stable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from handraise.model.forms import Risk
from handraise.model.questions import Draft, Question

FOLD = 20
"""If one asker has more equal questions than this, they are one row of a list."""
SOON = timedelta(hours=1)
"""A question that expires within this time is urgent."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER = 2**40
NOT_HIGH = 2**49
NOT_ESCALATED = 2**50
ASKERS_TURN = 2**51
NO_END = 2**52
"""More than any rank."""
_OTHERS = NOT_ESCALATED + NOT_HIGH
"""The first rank of those that are neither escalated nor of high risk."""
RISKS = {"high": 0, "medium": 1, "low": 2, None: 3}


class Walk(NamedTuple):
    """The questions after a place, which is a rank and an id, and before a rank."""

    rank: int
    after: str
    until: int


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
    band = 0 if is_escalated(question) else _band_of(question.risk)
    turn = ASKERS_TURN if question.is_askers_turn else 0
    return turn + band + 4 * seconds + RISKS[question.risk]


def is_soon(question: Question, now: datetime) -> bool:
    """Whether it expires soon."""
    return question.expires_at is not None and question.expires_at - now <= SOON


def soon_at(now: datetime) -> int:
    """The last second, since 1970, that is soon."""
    return (now + SOON - _EPOCH) // timedelta(seconds=1)


def rank_at(rank: int, soon: int) -> int:
    """The number by which a list sorts while the seconds up to `soon` are soon."""
    is_first = rank < NOT_ESCALATED or (rank < ASKERS_TURN and rank % NOT_HIGH // 4 <= soon)
    return rank if is_first else rank + NO_END


def all_walks() -> list[Walk]:
    """The walks that together have all pending questions."""
    return [Walk(-1, "", _OTHERS), Walk(_OTHERS, "", NO_END)]


def walks_after(rank: int, question_id: str, soon: int) -> list[Walk]:
    """The walks that together have what comes after a place in a list, whose rank is that of `rank_at`.

    Each of them has its questions in the order of the list.
    """
    is_first, later = rank < NO_END, 4 * (soon + 1)
    rank %= NO_END
    if rank < _OTHERS:
        return [Walk(rank, question_id, _OTHERS), Walk(_OTHERS + (0 if is_first else later), "", NO_END)]
    rest = Walk(rank, question_id, NO_END)
    return [Walk(NOT_ESCALATED + later, "", _OTHERS), rest] if is_first else [rest]


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


def _band_of(risk: Risk | None) -> int:
    return NOT_ESCALATED if risk == "high" else _OTHERS


def likeness_of(draft: Draft, form: str) -> int:
    """The same number for questions of one asker with the same text and the same form, here as JSON."""
    asked = f"{draft.asker}\n{draft.prompt}\n{form}".encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(asked, digest_size=8).digest(), signed=True)
