"""Several answers in one request: each with the result that it would have had by itself, and none of high risk."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Answered, Approval, Question
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_reader_key
from handraise.testing import promise
from handraise.wire.problem_documents import ProblemDocument
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

ANSWERS = "/v1/answers"
Headers = dict[str, str]


@pytest.fixture
async def ana(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ana", role=Role.MEMBER))


@pytest.fixture
async def refunds(ctx: ServerContext, workspace: str) -> list[Question]:
    """Three approvals that wait for ana or bo."""
    desk = ctx.desk.scoped(workspace, asker="bot")
    return [
        await desk.post("Refund?", form=Approval.of("refund", {"amount": amount}), recipients=["ana", "bo"])
        for amount in (1, 2, 3)
    ]


def approving(*questions: Question | str, **more: Any) -> dict[str, Any]:
    ids = [each if isinstance(each, str) else each.id for each in questions]
    return {"answers": [{"question_id": each, "value": "approve", "seen": 0, **more} for each in ids]}


async def test_each_has_the_status_and_the_body_that_it_would_have_alone(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, ana: Headers, refunds: list[Question]
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    first, second, third = refunds
    await desk.answer(second.id, "deny", by="bo")
    await desk.note(third.id, "wait for the bank", by="bo")
    choice = await desk.post("Which?", choices=["a", "b"], recipients=["ana"])
    body = approving(first, second, third, "nowhere")
    body["answers"] += [
        {"question_id": choice.id, "decline": True, "reason": "not mine"},
    ]
    said = await client.post(ANSWERS, json=body, headers=ana)
    assert said.status_code == 200
    results = said.json()["results"]
    assert [each["question_id"] for each in results] == [
        first.id,
        second.id,
        third.id,
        "nowhere",
        choice.id,
    ]
    assert [each["status"] for each in results] == [200, 409, 409, 404, 200]
    assert [(each["problem"] or {}).get("code") for each in results] == [
        None,
        "already_settled",
        "thread_moved",
        "question_not_found",
        None,
    ]
    assert results[0]["question"] == (await client.get(f"/v1/questions/{first.id}", headers=ana)).json()
    alone = await client.post(
        f"/v1/questions/{second.id}/answer", json={"value": "approve", "seen": 0}, headers=ana
    )
    assert ProblemDocument(**results[1]["problem"]) == ProblemDocument(**alone.json())
    assert results[4]["question"]["outcome"]["reason"] == "not mine"
    outcome = (await desk.get(first.id)).outcome
    assert isinstance(outcome, Answered)
    assert (outcome.by, outcome.channel, outcome.evidence) == ("ana", "api", "session")


@promise("P11")
async def test_high_risk_is_refused_whatever_the_answer_is_and_works_by_itself(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, ana: Headers
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    questions = [
        await desk.post("Drop?", form=Approval.of("drop", {"table": name}, risk="high"), recipients=["ana"])
        for name in ("a", "b", "c")
    ]
    answers = [
        {"question_id": questions[0].id, "value": "approve", "seen": 0},
        {"question_id": questions[1].id, "value": "deny"},
        {"question_id": questions[2].id, "decline": True},
    ]
    results = (await client.post(ANSWERS, json={"answers": answers}, headers=ana)).json()["results"]
    assert [(each["status"], each["problem"]["code"]) for each in results] == [(422, "not_in_bulk")] * 3
    assert "answer it by itself" in results[0]["problem"]["detail"]
    assert [(await desk.get(each.id)).status for each in questions] == ["pending"] * 3
    alone = await client.post(
        f"/v1/questions/{questions[0].id}/answer", json={"value": "approve", "seen": 0}, headers=ana
    )
    assert alone.status_code == 200


@promise("P8")
async def test_only_people_answer_only_what_they_may_and_only_in_their_own_name(
    client: httpx2.AsyncClient,
    issuer: Issuer,
    ctx: ServerContext,
    workspace: str,
    ana: Headers,
    refunds: list[Question],
) -> None:
    callers = {
        "the agent that asked": (await issuer.agent(workspace, "bot"), 403, None),
        "an agent with the name of a person": (await issuer.agent(workspace, "ana"), 403, None),
        "a key that reads": ((await issue_reader_key(ctx, workspace, "board", by="root")).key, 403, None),
        "nobody": ("hrs_nothing", 401, None),
        "a colleague who is not asked": (
            await issuer.person(workspace, "cy", role=Role.MEMBER),
            200,
            "question_not_found",
        ),
        "an administrator who is not asked": (
            await issuer.person(workspace, "root", role=Role.ADMIN),
            200,
            "permission_denied",
        ),
        "somebody of another workspace": (
            await issuer.person(f"{workspace}-2", "ana"),
            200,
            "question_not_found",
        ),
    }
    for name, (token, status, code) in callers.items():
        said = await client.post(ANSWERS, json=approving(*refunds), headers=bearer(token))
        assert said.status_code == status, (name, said.text)
        if code is not None:
            assert {each["problem"]["code"] for each in said.json()["results"]} == {code}, name
    forged = await client.post(ANSWERS, json=approving(*refunds, by="bo"), headers=ana)
    assert {each["status"] for each in forged.json()["results"]} == {403}
    stronger = await client.post(ANSWERS, json=approving(*refunds, evidence="passkey"), headers=ana)
    assert {each["problem"]["code"] for each in stronger.json()["results"]} == {"invalid_answer"}
    desk = ctx.desk.scoped(workspace)
    assert [(await desk.get(each.id)).status for each in refunds] == ["pending"] * 3


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [{"question_id": str(number), "value": "yes"} for number in range(101)],
        [{"question_id": "1", "value": "yes"}, {"question_id": "1", "decline": True}],
        [{"question_id": "1"}],
        [{"question_id": "1", "value": "yes", "decline": True}],
        [{"question_id": "1", "decline": False}],
        [{"question_id": "1", "value": "yes", "seen": -1}],
        [{"question_id": "../1", "value": "yes"}],
        [{"value": "yes"}],
        [{"question_id": "1", "value": "yes", "unknown": 1}],
        ["1"],
        [None],
        {"question_id": "1", "value": "yes"},
        None,
    ],
)
async def test_a_request_that_is_not_clear_is_refused_as_a_whole(
    client: httpx2.AsyncClient, ana: Headers, answers: Any
) -> None:
    refused = await client.post(ANSWERS, json={"answers": answers}, headers=ana)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


@on_every_store
async def test_the_same_key_has_the_same_results_and_answers_once(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, ana: Headers, refunds: list[Question]
) -> None:
    keyed = {**ana, "idempotency-key": "k"}
    first = await client.post(ANSWERS, json=approving(*refunds), headers=keyed)
    again = await client.post(ANSWERS, json=approving(*refunds), headers=keyed)
    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    desk = ctx.desk.scoped(workspace)
    for each in refunds:
        assert [event.kind for event in await desk.history(each.id)] == ["asked", "answered"]
    other = await client.post(ANSWERS, json=approving(refunds[0]), headers=keyed)
    assert other.status_code == 422


async def test_what_failed_for_the_moment_is_tried_again_with_the_same_key(
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    workspace: str,
    ana: Headers,
    refunds: list[Question],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = ctx.desk._engine  # noqa: SLF001 -- the one place where a write can fail
    settle = engine.settle

    class Failing:
        async def submit(self, move: Any) -> Any:
            if move.question.id == refunds[1].id:
                raise StoreUnavailable("not now")
            return await settle.submit(move)

    keyed = {**ana, "idempotency-key": "k"}
    with monkeypatch.context() as patch:
        patch.setattr(engine, "settle", Failing())
        first = await client.post(ANSWERS, json=approving(*refunds), headers=keyed)
    assert [each["status"] for each in first.json()["results"]] == [200, 503, 200]
    again = await client.post(ANSWERS, json=approving(*refunds), headers=keyed)
    assert [each["status"] for each in again.json()["results"]] == [200, 200, 200]
    desk = ctx.desk.scoped(workspace)
    for each in refunds:
        assert [event.kind for event in await desk.history(each.id)] == ["asked", "answered"]


@promise("P11")
async def test_what_needs_a_passkey_has_the_error_of_a_single_answer(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, ana: Headers
) -> None:
    rule = {"name": "pay", "when": "tool == 'pay'", "then": {"require": {"evidence": "passkey"}}}
    await ctx.policies.put(workspace, {"rules": [rule]}, by="root", expected=0)
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}), recipients=["ana"])
    [result] = (await client.post(ANSWERS, json=approving(question), headers=ana)).json()["results"]
    alone = await client.post(
        f"/v1/questions/{question.id}/answer", json={"value": "approve", "seen": 0}, headers=ana
    )
    assert result["status"] == alone.status_code == 403
    assert result["problem"]["detail"] == alone.json()["detail"]
    assert (await desk.get(question.id)).status == "pending"
