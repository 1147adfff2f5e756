"""What a person decided becomes the scores that the page names, on the trace of the agent that asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from handraise import Approval, Choice, Confirm, Desk, MultiChoice, Open, Question, Timeline, open_desk
from handraise.evaluation.scores import Score, scores_of, scores_since
from handraise.model.traceparent import trace_ids

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE = f"00-{TRACE_ID}-{SPAN_ID}-01"
PAY = Approval.of("pay", {"amount": 7}, editable=["amount"])


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk("memory:") as desk:
        yield desk


async def judged(desk: Desk, form: Any, value: Any) -> list[tuple[str, object]]:
    question = await desk.post("?", form=form, trace=TRACE)
    return named(scores_of(await desk.answer(question.id, value, by="ana")))


def named(scores: list[Score]) -> list[tuple[str, object]]:
    return [(score.name, score.value) for score in scores]


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (PAY, "approve", [("handraise_outcome", "approved"), ("handraise_approval", 1.0)]),
        (
            PAY,
            {"decision": "approve", "arguments": {"amount": 5}},
            [("handraise_outcome", "approved_with_edits"), ("handraise_approval", 0.5)],
        ),
        (PAY, "deny", [("handraise_outcome", "denied"), ("handraise_approval", 0.0)]),
        (Choice.of("a", "b"), "b", [("handraise_outcome", "answered"), ("handraise_choice", "b")]),
        (
            Choice.of("a", allow_other=True),
            {"other": "=1"},
            [("handraise_outcome", "answered"), ("handraise_choice", "other")],
        ),
        (
            MultiChoice.of("a", "b"),
            ["a", "b"],
            [("handraise_outcome", "answered"), ("handraise_choice", "a,b")],
        ),
        (Confirm(), False, [("handraise_outcome", "answered"), ("handraise_confirmed", False)]),
        (Open(), "a secret", [("handraise_outcome", "answered")]),
    ],
)
async def test_an_answer_has_the_scores_of_its_kind(
    desk: Desk, form: Any, value: Any, expected: list[tuple[str, object]]
) -> None:
    assert await judged(desk, form, value) == expected


async def test_a_score_names_the_trace_the_person_and_the_reason_and_is_always_the_same(desk: Desk) -> None:
    question = await desk.post("Pay?", form=PAY, trace=TRACE)
    denied = await desk.answer(question.id, {"decision": "deny", "reason": "too much"}, by="bo")
    outcome, approval = scores_of(denied)
    for score in (outcome, approval):
        assert (score.trace_id, score.span_id, score.by, score.comment) == (
            TRACE_ID,
            SPAN_ID,
            "bo",
            "too much",
        )
        assert score.metadata == {
            "handraise_question": question.id,
            "handraise_span": SPAN_ID,
            "handraise_by": "bo",
        }
    assert outcome.id != approval.id
    assert scores_of(await desk.get(question.id)) == [outcome, approval]
    elsewhere = await desk.scoped("other").post("Pay?", form=PAY, trace=TRACE)
    other = scores_of(await desk.scoped("other").answer(elsewhere.id, "deny", by="bo"))
    assert not {score.id for score in other} & {outcome.id, approval.id}


async def test_who_declines_or_sends_back_judges_too(desk: Desk) -> None:
    one, two = [await desk.post("Why?", trace=TRACE) for _ in range(2)]
    (declined,) = scores_of(await desk.decline(one.id, by="ana", reason="ask bo"))
    (returned,) = scores_of(await desk.send_back(two.id, by="ana", reason="say more"))
    assert (declined.value, declined.comment) == ("declined", "ask bo")
    assert (returned.value, returned.comment) == ("returned", "say more")


async def test_what_no_person_decided_is_no_judgment(desk: Desk) -> None:
    withdrawn = await desk.withdraw((await desk.post("?", trace=TRACE)).id)
    default = await desk.post(
        "?", choices=["a"], trace=TRACE, timeline=Timeline(expire=timedelta(seconds=0.01), default="a")
    )
    await desk.wait(default.id)
    pending = await desk.post("?", trace=TRACE)
    ended = await desk.get(default.id)
    assert ended.outcome is not None
    assert [scores_of(each) for each in (withdrawn, ended, pending)] == [[], [], []]


@pytest.mark.parametrize(
    "trace",
    [
        None,
        "",
        "nonsense",
        "00-1-2-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        TRACE.upper(),
    ],
)
async def test_without_a_trace_there_is_nothing_to_score(desk: Desk, trace: str | None) -> None:
    assert trace_ids(trace) == (None, None)
    question = await desk.post("?", trace=trace) if trace else await desk.post("?")
    assert scores_of(await desk.answer(question.id, "yes", by="ana")) == []


async def test_everything_that_was_settled_in_a_time_is_scored_once(desk: Desk) -> None:
    asked: list[Question] = []
    for number in range(450):
        question = await desk.post(f"{number}?", form=Confirm(), trace=TRACE)
        asked.append(await desk.answer(question.id, True, by="ana"))
    since = datetime.now(UTC) - timedelta(hours=1)
    pages = [page async for page in scores_since(desk, since)]
    found = [score.id for page in pages for score in page]
    assert sorted(found) == sorted(score.id for each in asked for score in scores_of(each))
    assert max(map(len, pages)) < len(found)
    assert [page async for page in scores_since(desk, since, until=since)] == []


async def test_a_question_keeps_the_span_in_which_it_is_asked(desk: Desk) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("an agent")
    assert (await desk.post("Not traced?")).trace is None
    with tracer.start_as_current_span("refund") as span:
        asked = await desk.post("Pay?")
        given = await desk.post("Pay?", trace=TRACE)
    context = span.get_span_context()
    assert trace_ids(asked.trace) == (
        trace.format_trace_id(context.trace_id),
        trace.format_span_id(context.span_id),
    )
    assert given.trace == TRACE
