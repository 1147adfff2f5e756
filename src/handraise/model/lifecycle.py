"""The life of a question, as one pure function over its statuses.

pending ──answer──▶ answered        pending ──the clock──▶ expired, or answered by default
pending ──decline─▶ declined        pending ──withdraw───▶ withdrawn, also by the policy if nobody waits for it
pending ──send back▶ returned
pending ──attempt─▶ pending, or exhausted after `max_attempts`
pending ──ask back, note, reply─▶ pending, with one more message in its thread
pending ──take, release, bring in, hand over, set aside, put back─▶ pending

Every store decides moves by `handraise.model.move_decisions.decide`, which calls `transition`. What the clock changes is in
`handraise.model.due_changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from handraise.model.agreement import tally_votes
from handraise.model.attachments import Attachment
from handraise.model.decisions import decision_of
from handraise.model.errors import KeyConflict
from handraise.model.events import EventKind
from handraise.model.forms import AnyForm, Approval, Scope
from handraise.model.grants import Grant
from handraise.model.json_values import Json, digest
from handraise.model.outcomes import Status, outcome_of
from handraise.model.people import Responder, may_respond
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.provenance import UNKNOWN, Provenance
from handraise.model.questions import Aside, Draft, Question, Vote
from handraise.model.validation import check_answer

MoveKind = Literal[
    "answer",
    "decline",
    "send_back",
    "withdraw",
    "withdraw_for",
    "attempt",
    "grant",
    "ask_back",
    "note",
    "reply",
    "take",
    "release",
    "bring_in",
    "hand_over",
    "set_aside",
    "put_back",
]

VOTES = frozenset({"answer", "decline", "send_back"})
"""The moves that are votes if several people must agree."""
OF_ASKERS = frozenset({"withdraw", "withdraw_for", "reply", "grant"})
"""The moves that no person makes."""
TAKEN_FOR = timedelta(minutes=10)
"""For how long somebody who takes a question is shown as working on it."""

DECLINED_BALLOT = "declined"
RETURNED_BALLOT = "returned"
"""What two people who send a question back agree on."""


class Refusal(StrEnum):
    """Why a move changes nothing."""

    SETTLED = "settled"
    """It has ended, or it does not exist."""
    EXPIRED = "expired"
    STOPPED = "stopped"
    DISABLED = "disabled"
    NOT_ASKED = "not_asked"
    """Others are asked, or only people of another stage are, or it is the asker."""
    NOT_THE_ASKER = "not_the_asker"
    THREAD_MOVED_ON = "thread_moved_on"
    """Somebody wrote something that this person had not seen."""
    NOBODY_REPLIES = "nobody_replies"
    """Its asker takes no questions."""
    NOTHING_TO_REPLY = "nothing_to_reply"
    TAKEN = "taken"
    """Somebody else is working on it."""
    UNCHANGED = "unchanged"
    """It is like that already."""
    GRANT_ENDED = "grant_ended"
    GRANT_IS_PAST = "grant_is_past"
    """The end that a person chose for a new grant is in the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGrant:
    """The grant that an approval with a wider scope creates, without what the store adds."""

    id: str
    scope: Scope
    tool: str
    digest: str
    lasts: timedelta
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A change that a person or the asker makes to a pending question.

    `record` is stored in the event, and as the outcome if the move settles the question. If several people must
    agree, they do if their `ballot` is equal; a `negative` one ends a question that has a veto. `new_grant` is the grant
    that an approval creates, `grant_id` the grant that a move uses. `seen` is how many messages of the thread an approval
    covers, or a reply answers; None if that does not matter. `to` are people and groups who are brought in, and `until` is
    when a question that somebody sets aside comes back.
    """

    question: Question
    kind: MoveKind
    responder: Responder
    record: dict[str, Json] = field(repr=False)
    ballot: str = field(default="", repr=False)
    negative: bool = False
    new_grant: NewGrant | None = None
    grant_id: str | None = None
    seen: int | None = None
    to: tuple[str, ...] = ()
    until: datetime | None = None

    @property
    def by(self) -> str:
        """The id of the responder."""
        return self.responder.id

    @property
    def approves(self) -> bool:
        """Whether it is an answer, and not a denial: a stop refuses it."""
        return self.kind in ("answer", "grant") and not self.negative

    @property
    def channel(self) -> str | None:
        """The channel of the move, if known."""
        return self.record.get("channel")


def same_question(draft: Draft, stored: Question) -> Question | KeyConflict:
    """Return the stored question if the draft means the same, else a `KeyConflict`.

    Another asker does not see the stored question unless both share the key.
    """
    ours = stored.asker == draft.asker or (stored.shared and draft.shared and stored.key == draft.key)
    if ours and stored.definition == draft.definition:
        return stored
    return KeyConflict(draft, stored if ours else None)


def already_replaced(draft: Draft, old: Question | None) -> InvalidQuestion | None:
    """Return why a draft cannot replace a question that another one has replaced, or None."""
    if old is None or old.replaced_by in (None, draft.id):
        return None
    why = f"that question is replaced by {old.replaced_by!r} already: replace that one"
    return InvalidQuestion([Problem("replaces", why)])


def answer_move(
    question: Question,
    responder: Responder,
    value: Json,
    *,
    provenance: Provenance = UNKNOWN,
    grant_id: str | None = None,
) -> Move:
    """Make the move that gives a checked, canonical answer; `grant_id` is the id of the grant it may create."""
    record: dict[str, Json] = {"value": value, "by": responder.id}
    if provenance is not UNKNOWN:
        record = _without_none(record | provenance.record())
    return Move(
        question=question,
        kind="answer",
        responder=responder,
        record=record,
        ballot=ballot_of(question.form, value) if question.takes_votes else "",
        negative=is_denial(question.form, value),
        seen=(provenance.seen or 0) if is_approval(question.form, value) else None,
        new_grant=_new_grant(question, value, grant_id),
    )


def grant_move(question: Question, grant: Grant) -> Move:
    """Make the move that answers an approval from a grant."""
    value = check_answer(question.form, "approve")
    record = {"value": value, "by": grant.granted_by, "source": "grant", "grant": grant.id}
    return Move(
        question=question,
        kind="grant",
        responder=Responder(question.asker),
        record=record,
        grant_id=grant.id,
        seen=0,  # nobody has said anything about this one
    )


def decline_move(
    question: Question,
    responder: Responder,
    *,
    reason: str | None = None,
    provenance: Provenance = UNKNOWN,
) -> Move:
    """Make the move of a person who declines."""
    record = {"by": responder.id, "reason": reason, **provenance.record()}
    return Move(
        question=question,
        kind="decline",
        responder=responder,
        record=_without_none(record),
        ballot=DECLINED_BALLOT,
        negative=True,
    )


def send_back_move(
    question: Question, responder: Responder, *, reason: str, provenance: Provenance = UNKNOWN
) -> Move:
    """Make the move of a person who sends a question back. `returns` tells such a vote from one to decline."""
    record = {
        "by": responder.id,
        "reason": reason,
        "returns": True if question.takes_votes else None,
        **provenance.record(),
    }
    return Move(
        question=question,
        kind="send_back",
        responder=responder,
        record=_without_none(record),
        ballot=RETURNED_BALLOT,
        negative=True,
    )


def ask_back_move(
    question: Question, responder: Responder, text: str, *, provenance: Provenance = UNKNOWN
) -> Move:
    """Make the move of a person who asks the asker something."""
    record = _without_none({"text": text, **provenance.record()})
    return Move(question=question, kind="ask_back", responder=responder, record=record)


def note_move(
    question: Question, responder: Responder, text: str, *, provenance: Provenance = UNKNOWN
) -> Move:
    """Make the move of a person who notes something for the other people."""
    record = _without_none({"text": text, **provenance.record()})
    return Move(question=question, kind="note", responder=responder, record=record)


def reply_move(
    question: Question, asker: str, text: str, *, to: int, attachments: Sequence[Attachment] = ()
) -> Move:
    """Make the move of an asker who replies to the messages up to this number."""
    record: dict[str, Json] = {"text": text, "replies_to": to}
    if attachments:
        record["attachments"] = [each.record() for each in attachments]
    return Move(question=question, kind="reply", responder=Responder(asker), record=record, seen=to)


def take_move(
    question: Question, responder: Responder, *, release: bool = False, provenance: Provenance = UNKNOWN
) -> Move:
    """Make the move of a person who takes a question, or releases it."""
    kind: MoveKind = "release" if release else "take"
    return Move(question=question, kind=kind, responder=responder, record=_without_none(provenance.record()))


def bring_in_move(
    question: Question,
    responder: Responder,
    to: Sequence[str],
    *,
    leave: bool = False,
    reason: str | None = None,
    provenance: Provenance = UNKNOWN,
) -> Move:
    """Make the move of a person who brings others in, or hands over to them if this person leaves."""
    record = _without_none({"to": list(to), "reason": reason, **provenance.record()})
    kind: MoveKind = "hand_over" if leave else "bring_in"
    return Move(question=question, kind=kind, responder=responder, record=record, to=tuple(to))


def set_aside_move(
    question: Question, responder: Responder, *, until: datetime | None, provenance: Provenance = UNKNOWN
) -> Move:
    """Make the move of a person who does not want a question in their inbox, until a time or for good."""
    record = {"until": None if until is None else until.isoformat(), **provenance.record()}
    return Move(
        question=question, kind="set_aside", responder=responder, record=_without_none(record), until=until
    )


def put_back_move(question: Question, responder: Responder, *, provenance: Provenance = UNKNOWN) -> Move:
    """Make the move of a person who wants a question in their inbox again."""
    record = _without_none(provenance.record())
    return Move(question=question, kind="put_back", responder=responder, record=record)


def put_back_for_move(question: Question, giver: Responder, *, instead_of: str) -> Move:
    """Make the move that puts a question back into the inbox of who handed it over to somebody who has left."""
    return Move(question=question, kind="put_back", responder=giver, record={"instead_of": instead_of})


def withdraw_move(
    question: Question, asker: str, *, reason: str | None = None, replaced_by: str | None = None
) -> Move:
    """Make the move of an asker who withdraws the question, or has asked another one instead."""
    record = {"by": asker, "reason": reason, "replaced_by": replaced_by}
    return Move(question=question, kind="withdraw", responder=Responder(asker), record=_without_none(record))


def admin_withdraw_move(question: Question, by: Responder, *, reason: str | None = None) -> Move:
    """Make the move of an administrator who withdraws a question for its asker."""
    record = {"by": by.id, "reason": reason}
    return Move(question=question, kind="withdraw_for", responder=by, record=_without_none(record))


def attempt_move(
    question: Question,
    responder: Responder,
    value: Json,
    problems: Sequence[Problem],
    *,
    provenance: Provenance = UNKNOWN,
) -> Move:
    """Make the move that records an invalid answer and its problems."""
    record = {
        "value": value,
        "by": responder.id,
        **provenance.record(),
        "problems": [{"path": problem.path, "message": problem.message} for problem in problems],
    }
    return Move(question=question, kind="attempt", responder=responder, record=_without_none(record))


def ballot_of(form: AnyForm, value: Json) -> str:
    """Return what must be equal for two answers to agree; a reason does not count."""
    if form.kind == "approval":
        return digest([value["decision"], value["digest"]])
    return digest(value)


def transition(
    question: Question,
    move: Move,
    now: datetime,
    *,
    counts: Callable[[Vote], bool],
    groups_of: Callable[[str], Collection[str]],
) -> tuple[Question, EventKind] | Refusal:
    """Return an open question after the move and the kind of its event, or why the mover may not make it.

    Call `decide`, which looks at everything else first. A vote that no longer `counts`, because its voter may not answer
    any more, is dropped first. `groups_of` gives the groups in which a voter is now; they decide which needs of the
    question are met.
    """
    if move.kind in ("withdraw", "reply", "grant") and move.by != question.asker:
        return Refusal.NOT_THE_ASKER
    if move.kind == "reply":
        return _replied(question, move)
    if move.kind in ("withdraw", "withdraw_for"):  # the caller has checked that an administrator may
        return _settled(question, Status.WITHDRAWN, move, now)
    if move.kind == "grant":
        return Refusal.GRANT_ENDED if question.takes_votes else _settled(question, Status.ANSWERED, move, now)
    if not may_respond(question, move.responder):
        return Refusal.NOT_ASKED
    if move.new_grant is not None and move.new_grant.until is not None and move.new_grant.until <= now:
        return Refusal.GRANT_IS_PAST
    if move.kind in ("ask_back", "note"):
        return _written(question, move)
    if move.kind in _SHARING:
        return _SHARING[move.kind](question, move, now)
    if move.kind == "attempt":
        tried = replace(question, attempts=question.attempts + 1)
        if tried.max_attempts is not None and tried.attempts >= tried.max_attempts:
            return _settled(tried, Status.EXHAUSTED, move, now)
        return tried, EventKind.ATTEMPTED
    ending = _VERDICTS[move.kind]
    if not question.takes_votes:
        return _settled(question, ending, move, now)
    others = tuple(vote for vote in question.votes if vote.by != move.by and counts(vote))
    votes = sorted((*others, Vote(move.by, move.ballot)), key=lambda vote: vote.by)
    tally = tally_votes(question.needs, votes, groups_of)
    voted = replace(question, votes=tuple(votes), missing=tally.missing)
    agreed = tally.agreeing(move.ballot) >= question.quorum and tally.are_needs_met(move.ballot)
    if agreed or (question.veto and move.negative):
        return _settled(voted, ending, move, now)
    return voted, EventKind.VOTED


def _written(question: Question, move: Move) -> tuple[Question, EventKind] | Refusal:
    """The question after a message of a person. The asker is only asked if it can reply."""
    number = question.thread + 1
    if move.kind == "note":
        return replace(question, thread=number), EventKind.NOTED
    if question.replies is None:
        return Refusal.NOBODY_REPLIES
    return replace(question, thread=number, asked_back=number), EventKind.ASKED_BACK


def _replied(question: Question, move: Move) -> tuple[Question, EventKind] | Refusal:
    """The question after a reply. Somebody may have asked again after what the asker replies to."""
    if not question.asked_back or move.seen is None:
        return Refusal.NOTHING_TO_REPLY
    number = question.thread + 1
    waiting = question.asked_back if question.asked_back > move.seen else 0
    return replace(question, thread=number, asked_back=waiting, replied=number), EventKind.REPLIED


def _taken(question: Question, move: Move, now: datetime) -> tuple[Question, EventKind] | Refusal:
    if question.taker(now) not in (None, move.by):
        return Refusal.TAKEN
    return replace(question, taken_by=move.by, taken_until=now + TAKEN_FOR), EventKind.TAKEN


def _released(question: Question, move: Move, now: datetime) -> tuple[Question, EventKind] | Refusal:
    if question.taker(now) != move.by:
        return Refusal.UNCHANGED
    return replace(question, taken_by=None, taken_until=None), EventKind.RELEASED


def _brought_in(question: Question, move: Move, _: datetime) -> tuple[Question, EventKind]:
    return with_people(question, move.to), EventKind.BROUGHT_IN


def _handed_over(question: Question, move: Move, now: datetime) -> tuple[Question, EventKind]:
    left, _ = _set_aside(with_people(question, move.to), move, now)
    is_taker = question.taken_by == move.by
    return replace(
        left,
        taken_by=None if is_taker else question.taken_by,
        taken_until=None if is_taker else question.taken_until,
    ), EventKind.HANDED_OVER


def _set_aside(question: Question, move: Move, _: datetime) -> tuple[Question, EventKind]:
    return with_aside(question, move.by, move.until), EventKind.SET_ASIDE


def with_aside(question: Question, person: str, until: datetime | None = None) -> Question:
    """The question after a person has set it aside, until a time or for good."""
    others = (each for each in question.aside if each.person != person)
    return replace(
        question, aside=tuple(sorted((*others, Aside(person, until)), key=lambda each: each.person))
    )


def _put_back(question: Question, move: Move, _: datetime) -> tuple[Question, EventKind] | Refusal:
    others = tuple(each for each in question.aside if each.person != move.by)
    return (
        Refusal.UNCHANGED
        if others == question.aside
        else (replace(question, aside=others), EventKind.PUT_BACK)
    )


def with_people(question: Question, people: Sequence[str]) -> Question:
    """The question with these people added. Those who had set it aside have it in their inbox again."""
    return replace(
        question,
        added=tuple(dict.fromkeys((*question.added, *people))),
        aside=tuple(each for each in question.aside if each.person not in people),
    )


_VERDICTS = {"answer": Status.ANSWERED, "decline": Status.DECLINED, "send_back": Status.RETURNED}
_SHARING: Mapping[str, Callable[[Question, Move, datetime], tuple[Question, EventKind] | Refusal]] = {
    "take": _taken,
    "release": _released,
    "bring_in": _brought_in,
    "hand_over": _handed_over,
    "set_aside": _set_aside,
    "put_back": _put_back,
}
"""The moves with which people share the work."""


def is_open(question: Question, now: datetime) -> bool:
    """Whether a question is pending and has not expired."""
    return question.status is Status.PENDING and (question.expires_at is None or question.expires_at > now)


def _settled(question: Question, status: Status, move: Move, now: datetime) -> tuple[Question, EventKind]:
    return ended_as(question, status, move.record, now), EventKind(status.value)


def ended_as(question: Question, status: Status, record: dict[str, Json], now: datetime) -> Question:
    """The question after it has ended like this."""
    return replace(question, status=status, outcome=outcome_of(status, now, record))


def wants_grant(form: AnyForm, value: Json) -> bool:
    """Whether this answer is an approval that creates a grant."""
    return isinstance(form, Approval) and "scope" in value


def _new_grant(question: Question, value: Json, grant_id: str | None) -> NewGrant | None:
    form = question.form
    if grant_id is None or not isinstance(form, Approval) or not wants_grant(form, value):
        return None
    action = decision_of(form, value).action
    until = value.get("until")
    return NewGrant(
        id=grant_id,
        scope=value["scope"],
        tool=action.tool,
        digest=form.grant_digest(action, question.recipients),
        lasts=timedelta(seconds=form.remember_for),
        until=datetime.fromisoformat(until) if until else None,
    )


def is_denial(form: AnyForm, value: Json) -> bool:
    """Whether a checked answer refuses an approval."""
    return form.kind == "approval" and value["decision"] == "deny"


def is_approval(form: AnyForm, value: Json) -> bool:
    """Whether a checked answer approves an action."""
    return form.kind == "approval" and value["decision"] == "approve"


def _without_none(record: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in record.items() if value is not None}
