"""What a move changes, or why nothing: one row of a table for each fact that decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise import Approval, Choice, Question, Responder, Status, Timeline
from handraise.events import EventKind
from handraise.model.grants import Grant
from handraise.model.lifecycle import Move, Refusal, answer_move, grant_move, note_move, withdraw_move
from handraise.model.move_decisions import Ballot, Change, Facts, Refused, Right, decide
from handraise.model.outcomes import Withdrawn
from handraise.model.provenance import Provenance
from handraise.model.questions import Need
from handraise.model.rulings import Ruling
from handraise.model.standing_answers import StandingAnswer
from handraise.model.stops import Stop
from handraise.model.timelines import steps_of
from handraise.model.validation import check_answer
from handraise.questions import Vote

START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
NOW = START + timedelta(minutes=1)
ANA, BOB = Responder("ana"), Responder("bob")
PAY = Approval.of("pay", {"amount": 10}, scopes=["once", "always"])
NOBODY_KNOWN = Right(None, frozenset())


def question(**fields: Any) -> Question:
    given = {"id": "q", "workspace": "w", "asker": "agent", "prompt": "?", "form": Choice(options=["a", "b"])}
    return Question(**{**given, "asked_at": START, **fields})


def voting(**fields: Any) -> Question:
    return question(recipients=("ana", "group:ops"), quorum=2, **fields)


def answer(about: Question, by: Responder = ANA, value: Any = "a", *, seen: int | None = None) -> Move:
    provenance = Provenance(seen=seen)
    return answer_move(about, by, check_answer(about.form, value), provenance=provenance, grant_id="g-2")


def stop(**covers: str) -> Stop:
    return Stop(workspace="w", id="s", why="wrong rows", at=START, by="olga", **covers)


def grant(**fields: Any) -> Grant:
    given: dict[str, Any] = {"id": "g-1", "workspace": "w", "asker": "agent", "tool": "pay", "digest": "d"}
    given |= {"scope": "always", "conversation": None, "granted_by": "ana", "question_id": "q-0"}
    return Grant(**{**given, "created_at": START, "expires_at": NOW + timedelta(hours=1), **fields})


def standing(**fields: Any) -> StandingAnswer:
    given: dict[str, Any] = {"id": "s", "workspace": "w", "topic": "t", "value": "a", "given_by": "ana"}
    given |= {"question_id": "q-0", "created_at": START, "expires_at": NOW + timedelta(days=1)}
    return StandingAnswer(**{**given, **fields})


def by_grant(about: Question) -> Move:
    return grant_move(about, grant())


ENDED = Withdrawn(at=START, by="agent", reason=None)
OPS = Responder("ana", frozenset({"ops"}))

REFUSED: dict[str, tuple[Question, Move, Facts, Refusal]] = {
    "it has ended": (
        done := question(status=Status.WITHDRAWN, outcome=ENDED),
        answer(done),
        Facts(now=NOW),
        Refusal.SETTLED,
    ),
    "its time is over": (
        late := question(steps=steps_of(Timeline(expire=NOW - START))),
        answer(late),
        Facts(now=NOW),
        Refusal.EXPIRED,
    ),
    "its agent is stopped": (
        about := question(),
        answer(about),
        Facts(now=NOW, stops=[stop(agent="agent")]),
        Refusal.STOPPED,
    ),
    "its tool is stopped": (
        pay := question(form=PAY),
        answer(pay, value="approve"),
        Facts(now=NOW, stops=[stop(tool="pay")]),
        Refusal.STOPPED,
    ),
    "who answers is disabled": (about, answer(about), Facts(now=NOW, disabled={"ana"}), Refusal.DISABLED),
    "there is no such grant": (pay, by_grant(pay), Facts(now=NOW), Refusal.GRANT_ENDED),
    "the grant was revoked": (
        pay,
        by_grant(pay),
        Facts(now=NOW, grant=(grant(revoked_at=NOW), NOBODY_KNOWN)),
        Refusal.GRANT_ENDED,
    ),
    "the grant is over": (
        pay,
        by_grant(pay),
        Facts(now=NOW, grant=(grant(expires_at=NOW), NOBODY_KNOWN)),
        Refusal.GRANT_ENDED,
    ),
    "the grant is another agent's": (
        pay,
        by_grant(pay),
        Facts(now=NOW, grant=(grant(asker="other"), NOBODY_KNOWN)),
        Refusal.GRANT_ENDED,
    ),
    "its giver was disabled": (
        pay,
        by_grant(pay),
        Facts(now=NOW, grant=(grant(), NOBODY_KNOWN), disabled={"ana"}),
        Refusal.GRANT_ENDED,
    ),
    "its giver was removed": (
        pay,
        by_grant(pay),
        Facts(now=NOW, grant=(grant(), Right(True, frozenset()))),
        Refusal.GRANT_ENDED,
    ),
    "something was said after what the approval covers": (
        said := question(form=PAY, thread=2),
        answer(said, value="approve", seen=1),
        Facts(now=NOW),
        Refusal.THREAD_MOVED_ON,
    ),
    "somebody else is asked": (
        bobs := question(recipients=("bob",)),
        answer(bobs),
        Facts(now=NOW),
        Refusal.NOT_ASKED,
    ),
    "the asker answers": (
        about,
        answer(about, Responder("agent")),
        Facts(now=NOW),
        Refusal.NOT_ASKED,
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_move_says_why(why: str) -> None:
    about, move, facts, refusal = REFUSED[why]
    refused = decide(about, move, facts)
    assert isinstance(refused, Refused)
    assert (refused.why, refused.question) == (refusal, about)
    assert (refused.stop is not None) is (refusal is Refusal.STOPPED)


@pytest.mark.parametrize(
    ("move", "facts"),
    [
        (answer(pay, value="deny"), Facts(now=NOW, stops=[stop()])),
        (answer(pay, value="approve"), Facts(now=NOW, stops=[stop(agent="another"), stop(tool="refund")])),
        (withdraw_move(pay, "agent"), Facts(now=NOW, stops=[stop()], disabled={"agent"})),
        (by_grant(pay), Facts(now=NOW, grant=(grant(), NOBODY_KNOWN))),
    ],
    ids=["a denial", "other stops", "a withdrawal", "a grant that holds"],
)
def test_what_does_not_concern_a_move_does_not_refuse_it(move: Move, facts: Facts) -> None:
    change = decide(pay, move, facts)
    assert isinstance(change, Change)
    assert change.question.outcome is not None


BEFORE = Ballot(Right(True, frozenset()), None)
ONE = voting(votes=(Vote("bob", answer(voting(), BOB).ballot),))

COUNTS: dict[str, tuple[dict[str, Any], bool]] = {
    "the directory still has the voter in the group": ({"known": {"bob": frozenset({"ops"})}}, True),
    "the voter left the group": ({"known": {"bob": frozenset()}}, False),
    "the voter was removed": ({}, False),
    "the voter was disabled": ({"known": {"bob": frozenset({"ops"})}, "disabled": {"bob"}}, False),
}


@pytest.mark.parametrize("case", COUNTS)
def test_a_vote_counts_as_long_as_its_voter_may_answer(case: str) -> None:
    facts, counts = COUNTS[case]
    change = decide(ONE, answer(ONE), Facts(now=NOW, ballots={"bob": BEFORE}, **facts))
    assert isinstance(change, Change)
    if counts:
        assert (change.kind, change.data) == (EventKind.ANSWERED, answer(ONE).record)
    else:
        assert (change.kind, change.data["uncounted"]) == (EventKind.VOTED, ["bob"])
    assert set(change.ballots) == {"ana", "bob"}


@pytest.mark.parametrize(("seen", "kind"), [(0, EventKind.VOTED), (2, EventKind.ANSWERED)])
def test_an_approval_of_an_older_conversation_is_not_counted(seen: int, kind: EventKind) -> None:
    about = voting(form=PAY, thread=2, replied=2)
    first = answer(about, BOB, "approve", seen=seen)
    about = replace(about, votes=(Vote("bob", first.ballot),))
    ballot = Ballot(Right(None, frozenset({"ops"})), seen)
    change = decide(about, answer(about, value="approve", seen=2), Facts(now=NOW, ballots={"bob": ballot}))
    assert isinstance(change, Change)
    assert change.kind is kind


@pytest.mark.parametrize(
    ("known", "kind"), [({}, EventKind.ANSWERED), ({"ana": frozenset[str]()}, EventKind.VOTED)]
)
def test_a_need_counts_groups_of_the_directory_and_else_those_that_were_vouched_for(
    known: dict[str, frozenset[str]], kind: EventKind
) -> None:
    about = question(recipients=("ana", "bob"), needs=(Need(("group:ops",), 1),))
    change = decide(about, answer(about, OPS), Facts(now=NOW, known=known))
    assert isinstance(change, Change)
    assert change.kind is kind


def test_an_approval_for_longer_is_remembered_with_the_right_of_its_giver() -> None:
    about = question(form=PAY, recipients=("group:ops",))
    move = answer(about, OPS, {"decision": "approve", "scope": "always"})
    change = decide(about, move, Facts(now=NOW, known={"ana": frozenset({"ops"})}))
    assert isinstance(change, Change)
    assert change.grant is not None
    made, right = change.grant
    assert (made.id, made.granted_by, made.scope, made.created_at) == ("g-2", "ana", "always", NOW)
    assert right == Right(True, frozenset({"ops"}))


@pytest.mark.parametrize(
    ("value", "kept", "ended"),
    [
        ("a", standing(), None),
        ("b", standing(), "s"),
        ("b", standing(revoked_at=NOW), None),
        ("b", None, None),
    ],
)
def test_a_spot_check_that_is_answered_differently_ends_the_standing_answer(
    value: str, kept: StandingAnswer | None, ended: str | None
) -> None:
    about = question()
    change = decide(about, answer(about, value=value), Facts(now=NOW, standing=kept))
    assert isinstance(change, Change)
    assert ("s" if change.contradicts else None) == ended


@pytest.mark.parametrize(("value", "rule"), [("deny", "small"), ("approve", None)])
def test_a_spot_check_that_is_denied_suspends_its_rule(value: str, rule: str | None) -> None:
    about = question(form=PAY, ruling=Ruling(version=1, checked="small"))
    change = decide(about, answer(about, value=value), Facts(now=NOW))
    assert isinstance(change, Change)
    assert change.suspends == rule


def test_a_note_changes_no_ballot_and_no_grant() -> None:
    change = decide(ONE, note_move(ONE, ANA, "I know them"), Facts(now=NOW, ballots={"bob": BEFORE}))
    assert isinstance(change, Change)
    assert (change.kind, change.ballots, change.grant) == (EventKind.NOTED, {"bob": BEFORE}, None)
