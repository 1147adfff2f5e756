from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise import (
    Answered,
    Approval,
    Choice,
    Declined,
    Exhausted,
    Open,
    Problem,
    Question,
    Responder,
    Status,
    Timeline,
    Withdrawn,
)
from handraise.events import EventKind
from handraise.model.agreement import newly_asked
from handraise.model.due_changes import due_change, expiry_change
from handraise.model.grants import Grant
from handraise.model.lifecycle import (
    Move,
    MoveKind,
    admin_withdraw_move,
    answer_move,
    ask_back_move,
    attempt_move,
    ballot_of,
    bring_in_move,
    decline_move,
    note_move,
    put_back_move,
    reply_move,
    send_back_move,
    set_aside_move,
    take_move,
    withdraw_move,
)
from handraise.model.move_decisions import Ballot, Change, Facts, Right, decide
from handraise.model.outcomes import Returned, outcome_of
from handraise.model.provenance import Provenance
from handraise.model.questions import Aside, Need
from handraise.model.timelines import steps_of
from handraise.model.validation import check_answer
from handraise.questions import Vote

START = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
NOW = START + timedelta(minutes=1)
ANA, BOB = Responder("ana"), Responder("bob")
PAY = Approval.of("pay", {"amount": 10}, editable=["amount"])
SETTLED = [status for status in Status if status is not Status.PENDING]

MOVES: dict[str, Callable[[Question, Responder], Move]] = {
    "answer": lambda question, by: answer_move(
        question, by, "a", provenance=Provenance(channel="web", evidence="session")
    ),
    "decline": lambda question, by: decline_move(
        question, by, reason="not mine", provenance=Provenance(channel="web")
    ),
    "withdraw": lambda question, by: withdraw_move(question, by.id, reason="no longer"),
    "withdraw_for": lambda question, by: admin_withdraw_move(question, by, reason="run away"),
    "attempt": lambda question, by: attempt_move(
        question, by, "x", [Problem("", "no")], provenance=Provenance(channel="web")
    ),
}
MOVES["ask_back"] = lambda question, by: ask_back_move(question, by, "Which customer?")
MOVES["note"] = lambda question, by: note_move(question, by, "I know them")
MOVES["reply"] = lambda question, by: reply_move(question, by.id, "Customer 12.", to=1)
MOVES["send_back"] = lambda question, by: send_back_move(question, by, reason="only 30")
MOVES["take"] = take_move
MOVES["release"] = lambda question, by: take_move(question, by, release=True)
MOVES["bring_in"] = lambda question, by: bring_in_move(question, by, ["bob"])
MOVES["hand_over"] = lambda question, by: bring_in_move(question, by, ["bob"], leave=True)
MOVES["set_aside"] = lambda question, by: set_aside_move(question, by, until=None)
MOVES["put_back"] = put_back_move
MOVES["grant"] = lambda question, by: Move(
    question=question,
    kind="grant",
    responder=by,
    record={"value": "a", "by": "zoe", "source": "grant", "grant": "g"},
    grant_id="g",
)
TABLE: dict[str, tuple[Status, EventKind]] = {
    "answer": (Status.ANSWERED, EventKind.ANSWERED),
    "decline": (Status.DECLINED, EventKind.DECLINED),
    "withdraw": (Status.WITHDRAWN, EventKind.WITHDRAWN),
    "withdraw_for": (Status.WITHDRAWN, EventKind.WITHDRAWN),
    "attempt": (Status.PENDING, EventKind.ATTEMPTED),
    "grant": (Status.ANSWERED, EventKind.ANSWERED),
    "ask_back": (Status.PENDING, EventKind.ASKED_BACK),
    "note": (Status.PENDING, EventKind.NOTED),
    "reply": (Status.PENDING, EventKind.REPLIED),
    "send_back": (Status.RETURNED, EventKind.RETURNED),
    "take": (Status.PENDING, EventKind.TAKEN),
    "release": (Status.PENDING, EventKind.RELEASED),
    "bring_in": (Status.PENDING, EventKind.BROUGHT_IN),
    "hand_over": (Status.PENDING, EventKind.HANDED_OVER),
    "set_aside": (Status.PENDING, EventKind.SET_ASIDE),
    "put_back": (Status.PENDING, EventKind.PUT_BACK),
}


ASKED_BACK: dict[str, Any] = {
    "replies": "program",
    "thread": 1,
    "asked_back": 1,
    "taken_by": "ana",
    "taken_until": START + timedelta(days=1),
    "aside": (Aside("ana", None),),
}
"""Somebody has asked the asker something, and ana has taken the question and set it aside: every move is possible."""


def question(status: Status = Status.PENDING, **changes: Any) -> Question:
    record = {"value": "a", "by": "zoe", "reason": "no"}
    pending = Question(
        id="q", workspace="w", asker="agent", prompt="Which?", form=Choice.of("a", "b"), asked_at=START
    )
    outcome = None if status is Status.PENDING else outcome_of(status, START, record)
    return replace(pending, status=status, outcome=outcome, **changes)


VOUCHED = Right(None, frozenset())
GRANT = Grant(
    id="g",
    workspace="w",
    asker="agent",
    tool="pay",
    digest="d",
    scope="always",
    conversation=None,
    granted_by="zoe",
    question_id="q-0",
    created_at=START,
    expires_at=START + timedelta(days=365),
)


def transition(
    question: Question, move: Move, now: datetime, **facts: Any
) -> tuple[Question, EventKind | None] | None:
    """What a move leads to where no fact stands in its way, or None."""
    ballots = {vote.by: Ballot(VOUCHED, None) for vote in question.votes}
    change = decide(question, move, Facts(now=now, ballots=ballots, grant=(GRANT, VOUCHED), **facts))
    return (change.question, change.kind) if isinstance(change, Change) else None


def mover(kind: str) -> Responder:
    return Responder("agent") if kind in ("withdraw", "grant", "reply") else ANA


def test_the_table_knows_every_move() -> None:
    assert set(TABLE) == set(MOVES) == set(get_args(MoveKind))


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("status", Status)
def test_only_a_pending_question_moves_and_each_move_leads_where_the_table_says(
    status: Status, kind: str
) -> None:
    before = question(status, **ASKED_BACK)
    done = transition(before, MOVES[kind](before, mover(kind)), NOW)
    if status is Status.PENDING:
        assert done is not None
        after, event = done
        assert (after.status, event) == TABLE[kind]
        assert (after.outcome is None) == (after.status is Status.PENDING)
    else:
        assert done is None


def test_each_ending_keeps_what_its_move_said() -> None:
    endings = []
    for kind, move in MOVES.items():
        before = question(max_attempts=1, **ASKED_BACK)
        done = transition(before, move(before, mover(kind)), NOW)
        assert done is not None
        if done[0].outcome is not None:
            endings.append(done[0].outcome)
    assert endings == [
        Answered(value="a", at=NOW, by="ana", channel="web", evidence="session"),
        Declined(at=NOW, by="ana", reason="not mine", channel="web"),
        Withdrawn(at=NOW, by="agent", reason="no longer"),
        Withdrawn(at=NOW, by="ana", reason="run away"),
        Exhausted(at=NOW, by="ana"),
        Returned(at=NOW, by="ana", reason="only 30"),
        Answered(value="a", at=NOW, by="zoe", source="grant"),
    ]


def test_a_move_changes_nothing_but_what_it_is_about() -> None:
    before = question(context={"a": 1}, state={"b": 2}, key="k", recipients=("ana",))
    done = transition(before, MOVES["answer"](before, ANA), NOW)
    assert done is not None
    assert replace(done[0], status=Status.PENDING, outcome=None) == before


@pytest.mark.parametrize("kind", MOVES)
def test_no_move_counts_once_the_time_is_over_even_before_the_sweep(kind: str) -> None:
    before = question(steps=steps_of(Timeline(expire=timedelta(hours=1))), **ASKED_BACK)
    move = MOVES[kind](before, mover(kind))
    end = START + timedelta(hours=1)
    assert transition(before, move, end - timedelta(microseconds=1)) is not None
    assert transition(before, move, end) is None


@pytest.mark.parametrize("kind", sorted({*MOVES} - {"withdraw", "withdraw_for", "grant", "reply"}))
@pytest.mark.parametrize("by", ["agent", "eve"])
def test_neither_the_asker_nor_a_stranger_moves_a_question_as_a_person(kind: str, by: str) -> None:
    before = question(recipients=("ana", "agent"), max_attempts=1, **ASKED_BACK)
    assert transition(before, MOVES[kind](before, Responder(by)), NOW) is None


@pytest.mark.parametrize("by", ["ana", "another agent", ""])
def test_only_the_asker_replies(by: str) -> None:
    before = question(**ASKED_BACK)
    assert transition(before, reply_move(before, by, "Because.", to=1), NOW) is None


@pytest.mark.parametrize("by", ["ana", "another agent", ""])
def test_only_the_asker_withdraws(by: str) -> None:
    before = question()
    assert transition(before, withdraw_move(before, by), NOW) is None


@pytest.mark.parametrize(("by", "quorum"), [("ana", 1), ("another agent", 1), ("agent", 2)])
def test_a_grant_is_used_by_the_asker_alone_and_never_for_several_people(by: str, quorum: int) -> None:
    before = question(quorum=quorum)
    assert transition(before, MOVES["grant"](before, Responder(by)), NOW) is None


def test_attempts_are_counted_and_the_last_allowed_one_exhausts_it() -> None:
    current = question(max_attempts=3)
    for count in (1, 2):
        done = transition(current, MOVES["attempt"](current, ANA), NOW)
        assert done is not None
        current, event = done
        assert (current.status, current.attempts, event) == (Status.PENDING, count, EventKind.ATTEMPTED)
    done = transition(current, MOVES["attempt"](current, BOB), NOW)
    assert done is not None
    assert (done[0].status, done[0].attempts, done[1]) == (Status.EXHAUSTED, 3, EventKind.EXHAUSTED)


def test_without_a_limit_attempts_never_exhaust_it() -> None:
    current = question()
    for _ in range(100):
        done = transition(current, MOVES["attempt"](current, ANA), NOW)
        assert done is not None
        current = done[0]
    assert (current.status, current.attempts) == (Status.PENDING, 100)


def test_an_attempt_is_kept_with_its_reasons() -> None:
    move = attempt_move(question(), ANA, "x", [Problem("a.b", "is wrong"), Problem("", "too")])
    assert move.record == {
        "value": "x",
        "by": "ana",
        "problems": [{"path": "a.b", "message": "is wrong"}, {"path": "", "message": "too"}],
    }


def test_a_veto_ends_it_only_where_there_is_one() -> None:
    for veto, status in ((True, Status.ANSWERED), (False, Status.PENDING)):
        before = question(form=PAY, quorum=2, veto=veto)
        done = transition(before, answer_move(before, ANA, check_answer(PAY, "deny")), NOW)
        assert done is not None
        assert done[0].status is status


def test_an_approval_is_no_veto() -> None:
    before = question(form=PAY, quorum=2, veto=True)
    done = transition(before, answer_move(before, ANA, check_answer(PAY, "approve")), NOW)
    assert done is not None
    assert (done[0].status, done[1]) == (Status.PENDING, EventKind.VOTED)


def test_needs_make_every_answer_a_vote_and_no_grant_answers() -> None:
    before = question(needs=(Need(("ana",)), Need(("group:legal",))), quorum=1)
    assert transition(before, MOVES["grant"](before, Responder("agent")), NOW) is None
    first = transition(before, answer_move(before, ANA, "a"), NOW)
    assert first is not None
    voted, event = first
    assert (voted.status, voted.missing, event) == (Status.PENDING, (0, 1), EventKind.VOTED)
    move = answer_move(voted, Responder("lee"), "a")
    settled = transition(voted, move, NOW, known={"lee": frozenset({"legal"})})
    assert settled is not None
    assert (settled[0].status, settled[0].missing) == (Status.ANSWERED, (0, 0))


def test_only_the_people_of_the_open_stage_vote_and_a_dropped_vote_closes_the_later_one() -> None:
    before = question(
        needs=(Need(("ana", "zoe")), Need(("lee",), 1, 1)), recipients=("ana", "zoe", "lee"), quorum=2
    )
    lee = Responder("lee")
    assert transition(before, answer_move(before, lee, "a"), NOW) is None
    opened = transition(before, answer_move(before, ANA, "a"), NOW)
    assert opened is not None
    assert opened[0].stage == 1
    assert transition(opened[0], answer_move(opened[0], Responder("zoe"), "a"), NOW) is None
    back = transition(opened[0], answer_move(opened[0], lee, "a"), NOW, disabled={"ana"})
    assert back is not None
    assert (back[0].status, back[0].stage, back[0].missing) == (Status.PENDING, 0, (1, 0))
    assert newly_asked(back[0], 1) == ("ana", "zoe")


def test_ballots_agree_on_the_decision_and_the_action_whatever_the_reasons() -> None:
    def ballot(value: Any) -> str:
        return ballot_of(PAY, check_answer(PAY, value))

    assert ballot({"decision": "deny", "reason": "a"}) == ballot("deny")
    assert ballot("approve") != ballot("deny")
    assert ballot("approve") != ballot({"decision": "approve", "arguments": {"amount": 9}})
    assert ballot({"decision": "approve", "arguments": {"amount": 10}}) == ballot("approve")


def test_a_refusal_to_answer_never_agrees_with_an_answer() -> None:
    before = question(form=Open(), quorum=2, votes=(Vote("ana", ballot_of(Open(), "declined")),))
    done = transition(before, decline_move(before, BOB), NOW)
    assert done is not None
    assert done[0].status is Status.PENDING


def test_a_recovery_expires_whatever_it_gives_up() -> None:
    change = expiry_change(question(attempts=2), NOW)
    assert (change.question.status, change.question.attempts, change.kind) == (
        Status.EXPIRED,
        2,
        EventKind.EXPIRED,
    )


PEOPLE = ("ana", "bob", "cy", "agent")
DEEDS = st.lists(
    st.tuples(
        st.sampled_from([*MOVES, "tick"]),
        st.sampled_from(PEOPLE),
        st.sampled_from(("a", "b")),
        st.integers(0, 40),
    ),
    max_size=20,
)
LIVES = st.builds(
    question,
    quorum=st.integers(1, 3),
    veto=st.booleans(),
    max_attempts=st.none() | st.integers(1, 3),
    recipients=st.sampled_from(((), ("ana", "bob", "cy"), ("bob", "agent"))),
    steps=st.sampled_from(
        (
            (),
            steps_of(Timeline(remind=(timedelta(minutes=30),), expire=timedelta(hours=2))),
            steps_of(Timeline(expire=timedelta(hours=1), default="b")),
        )
    ),
)


def live(
    start: Question, deeds: list[tuple[str, str, str, int]]
) -> list[tuple[Question, EventKind | None, str]]:
    """Every step that a question takes: what it became, the event, and by whom."""
    current, now, taken = start, START, []
    for kind, by, value, minutes in deeds:
        now += timedelta(minutes=minutes)
        if kind == "tick":
            due = due_change(current, now)
            done = None if due is None else (due.question, due.kind)
        elif kind == "answer":
            done = transition(current, answer_move(current, Responder(by), value), now)
        else:
            done = transition(current, MOVES[kind](current, Responder(by)), now)
        if done is not None:
            current = done[0]
            taken.append((*done, by))
    return taken


@given(LIVES, DEEDS)
def test_a_settled_question_never_changes(start: Question, deeds: list[tuple[str, str, str, int]]) -> None:
    taken = live(start, deeds)
    assert all(after.status is Status.PENDING for after, _, _ in taken[:-1])


@given(LIVES, DEEDS)
def test_at_most_one_move_settles_it_and_its_event_says_how(
    start: Question, deeds: list[tuple[str, str, str, int]]
) -> None:
    taken = live(start, deeds)
    endings = [
        (after, event)
        for after, event, _ in taken
        if event is not None and event.value in {status.value for status in SETTLED}
    ]
    assert len(endings) <= 1
    for after, event in endings:
        assert after.outcome is not None
        assert event.value == after.status == after.outcome.status


@given(LIVES, DEEDS)
def test_every_step_leaves_its_mark_and_nothing_else_does(
    start: Question, deeds: list[tuple[str, str, str, int]]
) -> None:
    before = start
    for after, event, _ in live(start, deeds):
        assert (after.attempts - before.attempts) == (event in (EventKind.ATTEMPTED, EventKind.EXHAUSTED))
        clockwork = after.steps_taken - before.steps_taken
        assert clockwork == (event is EventKind.REMINDED)
        assert (after.votes != before.votes) <= (
            event in (EventKind.VOTED, EventKind.ANSWERED, EventKind.DECLINED, EventKind.RETURNED)
        )
        before = after


@given(LIVES, DEEDS)
def test_the_votes_of_one_person_count_once_and_only_enough_people_settle_it(
    start: Question, deeds: list[tuple[str, str, str, int]]
) -> None:
    for after, event, by in live(start, deeds):
        assert max(Counter(vote.by for vote in after.votes).values(), default=0) <= 1
        assert all(vote.by != "agent" for vote in after.votes)
        most = max(Counter(vote.ballot for vote in after.votes).values(), default=0)
        if after.status is Status.PENDING:
            assert most < start.quorum
        elif start.quorum > 1 and event is EventKind.ANSWERED and not _by_default(after):
            assert most >= start.quorum
            assert by in {vote.by for vote in after.votes}


@given(LIVES, DEEDS)
def test_a_life_without_answers_never_ends_in_one_that_nobody_named(
    start: Question, deeds: list[tuple[str, str, str, int]]
) -> None:
    silent = [deed for deed in deeds if deed[0] not in ("answer", "grant")]
    for after, _, _ in live(start, silent):
        assert after.status is not Status.ANSWERED or (_by_default(after) and start.steps[-1].do == "default")


def _by_default(after: Question) -> bool:
    return isinstance(after.outcome, Answered) and after.outcome.source == "default"
