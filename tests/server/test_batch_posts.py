"""Several questions in one request: each with the result that it would have had by itself, and no more than alone."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise.model.errors import StoreUnavailable
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_reader_key
from handraise.wire.problem_documents import ProblemDocument
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

BATCH = "/v1/questions:batch"
Headers = dict[str, str]


@pytest.fixture
async def bot(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


def asking(*questions: dict[str, Any] | str) -> dict[str, Any]:
    return {"questions": [{"prompt": each} if isinstance(each, str) else each for each in questions]}


@on_every_store
async def test_each_has_the_status_and_the_body_that_it_would_have_alone(
    client: httpx2.AsyncClient, bot: Headers
) -> None:
    await client.post("/v1/questions", json={"prompt": "Taken", "key": "taken"}, headers=bot)
    wrong = {"prompt": "Which?", "choices": ["a", "a"]}
    body = asking("First?", wrong, {"prompt": "Other", "key": "taken"}, {"prompt": "Own id?", "id": "mine"})
    said = await client.post(BATCH, json=body, headers=bot)
    assert said.status_code == 200
    results = said.json()["results"]
    assert [each["status"] for each in results] == [201, 422, 409, 201]
    alone = [await client.post("/v1/questions", json=each, headers=bot) for each in body["questions"][1:3]]
    for result, problem in zip(results[1:3], alone, strict=True):
        assert ProblemDocument(**result["problem"]) == ProblemDocument(**problem.json())
    for place in (0, 3):
        asked = results[place]["question"]
        assert asked == (await client.get(f"/v1/questions/{asked['id']}", headers=bot)).json()
        assert asked["asker"] == "bot"
    assert results[3]["question"]["id"] == "mine"


@pytest.mark.parametrize("settings", [{"rate_limit": "5/minute"}])
async def test_each_counts_in_the_rate_limit(
    client: httpx2.AsyncClient, ctx: ServerContext, bot: Headers, workspace: str
) -> None:
    said = await client.post(BATCH, json=asking(*"abcdefg"), headers=bot)
    assert [each["status"] for each in said.json()["results"]] == [201] * 5 + [429] * 2
    assert said.json()["results"][-1]["problem"]["retry_after"] > 0
    assert (await client.post("/v1/questions", json={"prompt": "more"}, headers=bot)).status_code == 429
    assert len((await ctx.desk.scoped(workspace).list_pending()).items) == 5


@pytest.mark.parametrize("settings", [{"pending_quota": 2}])
async def test_together_they_have_the_quota_of_one_agent(client: httpx2.AsyncClient, bot: Headers) -> None:
    said = await client.post(BATCH, json=asking(*"abcd"), headers=bot)
    assert sorted(each["status"] for each in said.json()["results"]) == [201, 201, 429, 429]


async def test_only_an_agent_asks(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    person = await issuer.person(workspace, "ana")
    reader = await issue_reader_key(ctx, workspace, reader="warehouse", by="root")
    for token, status in ((person, 403), (reader.key, 403), ("hra_wrong", 401)):
        said = await client.post(BATCH, json=asking("Go?"), headers=bearer(token))
        assert said.status_code == status
    assert not (await ctx.desk.scoped(workspace).list_pending()).items


@pytest.mark.parametrize("count", [0, 101])
async def test_there_are_one_to_a_hundred(
    client: httpx2.AsyncClient, ctx: ServerContext, bot: Headers, workspace: str, count: int
) -> None:
    said = await client.post(BATCH, json=asking(*["Go?"] * count), headers=bot)
    assert (said.status_code, said.json()["code"]) == (422, "invalid_request")
    assert not (await ctx.desk.scoped(workspace).list_pending()).items


async def test_what_is_sent_again_with_its_idempotency_key_asks_nothing_twice(
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    bot: Headers,
    workspace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    headers = bot | {"idempotency-key": "k"}
    insert = ctx.engine.insert.submit
    failed: list[Any] = []

    def fail_once(draft: Any) -> Any:
        if draft.prompt == "b" and not failed:
            failed.append(draft)
            raise StoreUnavailable("not now")
        return insert(draft)

    monkeypatch.setattr(ctx.engine.insert, "submit", fail_once)
    first = (await client.post(BATCH, json=asking(*"abc"), headers=headers)).json()["results"]
    assert [each["status"] for each in first] == [201, 503, 201]
    again = await client.post(BATCH, json=asking(*"abc"), headers=headers)
    second = again.json()["results"]
    assert [each["status"] for each in second] == [201, 201, 201]
    assert [first[place]["question"]["id"] for place in (0, 2)] == [
        second[place]["question"]["id"] for place in (0, 2)
    ]
    replayed = await client.post(BATCH, json=asking(*"abc"), headers=headers)
    assert replayed.headers["idempotency-replayed"] == "true"
    assert replayed.content == again.content
    pending = (await ctx.desk.scoped(workspace).list_pending()).items
    assert sorted(each.prompt for each in pending) == ["a", "b", "c"]
