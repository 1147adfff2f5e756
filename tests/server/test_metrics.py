"""The numbers are right, and no name is in them."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from handraise.model.deliveries import Address
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role
from handraise.questions import Escalation, Timeline
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.server.context import _update_queue_stats
from handraise.server.observability.metrics import Metrics
from handraise.testing import ManualClock
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

SOON = 30.0


async def numbers(client: httpx2.AsyncClient) -> dict[str, float]:
    """Every sample of /metrics by its name and labels, as Prometheus reads them."""
    response = await client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> dict[str, str]:
    return bearer(await issuer.agent(workspace, "secret-agent"))


@pytest.fixture
async def person(issuer: Issuer, workspace: str) -> dict[str, str]:
    return bearer(await issuer.person(workspace, "secret-person"))


async def test_what_is_asked_attempted_and_settled_is_counted_with_the_time_it_took(
    client: httpx2.AsyncClient, agent: dict[str, str], person: dict[str, str], clock: ManualClock
) -> None:
    async def ask(**options: Any) -> str:
        response = await client.post("/v1/questions", json={"prompt": "?", **options}, headers=agent)
        assert response.status_code == 201, response.text
        found: str = response.json()["id"]
        return found

    answered, declined, withdrawn = await ask(choices=["a", "b"], key="one"), await ask(), await ask()
    assert await ask(choices=["a", "b"], key="one") == answered
    await ask(expires_in=60)
    await ask(expires_in=60, timeline=None)
    clock.advance(timedelta(seconds=40))
    misfit = await client.post(f"/v1/questions/{answered}/answer", json={"value": "c"}, headers=person)
    assert misfit.status_code == 422
    await client.post(f"/v1/questions/{answered}/answer", json={"value": "a"}, headers=person)
    await client.post(f"/v1/questions/{declined}/decline", json={}, headers=person)
    await client.post(f"/v1/questions/{withdrawn}/withdraw", json={}, headers=agent)
    clock.advance(timedelta(seconds=40))
    await client.post("/v1/run-due", headers=agent)
    found = await numbers(client)
    assert found["handraise_questions_asked_total"] == 5
    assert found["handraise_attempts_total"] == 1
    assert {
        name.partition("status=")[2]: value
        for name, value in found.items()
        if name.startswith("handraise_questions_settled_total")
    } == {"answered": 1, "declined": 1, "withdrawn": 1, "expired": 2, "exhausted": 0, "returned": 0}
    assert found["handraise_time_to_answer_seconds_count"] == 1
    assert found["handraise_time_to_answer_seconds_sum"] == 40
    assert found["handraise_time_to_answer_seconds_bucket le=15.0"] == 0
    assert found["handraise_time_to_answer_seconds_bucket le=60.0"] == 1


async def test_pending_is_counted_by_age_beside_the_scrapes(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    agent: dict[str, str],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = await ctx.store.queue_stats()
    await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)
    clock.advance(timedelta(minutes=5))
    await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)
    await _update_queue_stats(ctx)

    async def refuse() -> Any:
        raise AssertionError("a scrape made the store count")

    monkeypatch.setattr(ctx.store, "queue_stats", refuse, raising=False)
    found = await numbers(client)
    known = {
        age: found[f"handraise_questions_pending at_most={'+Inf' if age == float('inf') else f'{age:g}'}"]
        for age in before.pending
    }
    # Another test may have left some in the same database.
    assert known[600.0] - known[60.0] >= 1
    assert known[60.0] >= 1
    assert known[float("inf")] >= 2
    assert 0 <= found["handraise_task_age_seconds task=count"] < SOON


@on_every_store
@pytest.mark.parametrize("settings", [{"pending_quota": 2}])
async def test_a_message_that_nobody_sends_and_an_agent_at_its_quota_are_seen(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    agent: dict[str, str],
    issuer: Issuer,
    workspace: str,
    clock: ManualClock,
) -> None:
    await issuer.person(workspace, "secret-person")
    before = await ctx.store.queue_stats(quota=2)
    to = {"any": "where"}
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="secret-person", channel="gone", id="main", to=to)
    )
    for _ in range(2):
        asked = await client.post(
            "/v1/questions", json={"prompt": "?", "recipients": ["secret-person"]}, headers=agent
        )
        assert asked.status_code == 201
    refused = await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)
    assert refused.status_code == 429
    clock.advance(timedelta(minutes=5))
    await _update_queue_stats(ctx)
    found = await numbers(client)
    assert found["handraise_outbox_oldest_due_seconds"] >= max(300, before.oldest_due)
    assert found["handraise_agents_at_quota"] >= before.askers_at_quota + 1
    assert "secret" not in (await client.get("/metrics")).text


@on_every_store
async def test_questions_that_nobody_can_answer_are_counted(ctx: ServerContext, workspace: str) -> None:
    directory, desk = ctx.directory, ctx.desk.scoped(workspace, asker="bot")

    async def number() -> int:
        return (await ctx.store.queue_stats()).unanswerable

    async def post(*recipients: str, **options: Any) -> None:
        await desk.post("?", recipients=recipients, check_recipients=False, **options)

    before = await number()
    await post()
    assert await number() == before + 1, "the workspace has nobody"
    for person in ("ana", "bo", "cy"):
        await directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
    await directory.put_group(workspace, "ops", ["bo"], by="test")
    await directory.put_group(workspace, "nobody", [], by="test")
    assert await number() == before
    await post("bo")
    await post("group:ops")
    await post("bo", "ana")
    await post("bo", timeline=Timeline(escalate=Escalation(after="1h", to=["ana"])))
    await post("slack-user")
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="slack-user", channel="slack", id="main", to={})
    )
    assert await number() == before
    await directory.disable_person(workspace, "bo", by="test")
    assert await number() == before + 2, "only bo, and only a group of bo"
    await post("group:nobody")
    assert await number() == before + 3
    await directory.put_group(workspace, "ops", ["bo", "cy"], by="test")
    await directory.enable_person(workspace, "bo", by="test")
    assert await number() == before + 1


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("settings", [{"connections": 3}])
async def test_the_pool_says_how_many_connections_it_has_and_who_waits_for_one(
    ctx: ServerContext, client: httpx2.AsyncClient, store: str
) -> None:
    connection = await asyncpg.connect(store)
    held: list[asyncio.Task[Any]] = []
    try:
        await connection.execute("begin; lock table handraise.grants in access exclusive mode")
        held += [asyncio.create_task(ctx.store.grants("nowhere", after=None, limit=1)) for _ in range(5)]
        async with asyncio.timeout(SOON):
            while (found := await numbers(client))["handraise_pool_waiters"] < 3:
                await asyncio.sleep(0.01)
        assert (found["handraise_pool_size"], found["handraise_pool_in_use"]) == (2, 2)
    finally:
        await connection.close()
        await asyncio.gather(*held, return_exceptions=True)
    async with asyncio.timeout(SOON):
        while (found := await numbers(client))["handraise_pool_waiters"] or found["handraise_pool_in_use"]:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_credentials_that_are_not_valid_are_counted_by_what_they_are(
    client: httpx2.AsyncClient,
) -> None:
    for _ in range(2):
        await client.get("/v1/me", headers=bearer("hra_nothing"))
    await client.post("/v1/sessions", json={"link": "hrl_nothing"})
    await client.get("/v1/me")
    found = await numbers(client)
    assert found["handraise_credentials_refused_total credential=key"] == 2
    assert found["handraise_credentials_refused_total credential=sign_in_link"] == 1
    assert sum(value for name, value in found.items() if "credentials_refused" in name) == 3


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_an_event_loop_that_is_blocked_is_seen(ctx: ServerContext, client: httpx2.AsyncClient) -> None:
    del ctx
    async with asyncio.timeout(SOON):
        while (found := await numbers(client))["handraise_event_loop_lag_seconds_count"] < 1:
            await asyncio.sleep(0.05)
        before = found["handraise_event_loop_lag_seconds_sum"]
        time.sleep(0.8)  # noqa: ASYNC251 -- it blocks the loop
        while (await numbers(client))["handraise_event_loop_lag_seconds_sum"] - before < 0.2:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_requests_are_counted_by_template_and_no_name_gets_into_a_label(
    client: httpx2.AsyncClient, agent: dict[str, str], person: dict[str, str], workspace: str
) -> None:
    asked = await client.post(
        "/v1/questions",
        json={"prompt": "?", "conversation": "secret-talk"},
        headers=agent | {"idempotency-key": "once"},
    )
    again = await client.post(
        "/v1/questions",
        json={"prompt": "?", "conversation": "secret-talk"},
        headers=agent | {"idempotency-key": "once"},
    )
    assert again.json() == asked.json()
    await client.get(f"/v1/questions/{asked.json()['id']}?secret-query=1", headers=person)
    await client.get("/v1/questions/no-such-secret", headers=person)
    await client.get("/nowhere/secret")
    await client.request("SECRET", "/healthz")
    found = await numbers(client)
    assert found["handraise_http_requests_total method=POST route=/v1/questions status=201"] == 2
    assert found["handraise_http_requests_total method=GET route=/v1/questions/{question_id} status=200"] == 1
    assert found["handraise_http_requests_total method=GET route=/v1/questions/{question_id} status=404"] == 1
    assert found["handraise_http_requests_total method=GET route=none status=404"] == 1
    assert found["handraise_http_requests_total method=OTHER route=/healthz status=405"] == 1
    assert found["handraise_http_request_duration_seconds_count method=POST route=/v1/questions"] == 2
    assert found["handraise_requests_replayed_total"] == 1
    text = (await client.get("/metrics")).text
    assert [word for word in ("secret", workspace, asked.json()["id"]) if word in text.lower()] == []


@pytest.mark.parametrize("settings", [{"rate_limit": "2/hour"}])
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_refused_because_there_were_too_many(client: httpx2.AsyncClient, agent: dict[str, str]) -> None:
    for _ in range(5):
        await client.get("/v1/questions", headers=agent)
    assert (await numbers(client))["handraise_requests_limited_total"] == 3


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_waits_and_streams_are_those_of_now(
    ctx: ServerContext, client: httpx2.AsyncClient, agent: dict[str, str], person: dict[str, str]
) -> None:
    asked = (await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)).json()["id"]
    async with asyncio.timeout(SOON):
        wait = asyncio.create_task(client.get(f"/v1/questions/{asked}/outcome?wait=60s", headers=agent))
        stream = asyncio.create_task(client.get("/v1/events", headers=agent))  # read to its end
        while True:
            found = await numbers(client)
            if (found["handraise_waits"], found["handraise_event_streams"]) == (1, 1):
                break
            await asyncio.sleep(0.01)
        await client.post(f"/v1/questions/{asked}/answer", json={"value": "yes"}, headers=person)
        assert (await wait).json()["status"] == "answered"
        ctx.stopping.set()
        assert (await stream).text.startswith("event: ready")
    found = await numbers(client)
    assert (found["handraise_waits"], found["handraise_event_streams"]) == (0, 0)
    assert found["handraise_wake_up_lag_seconds_count settled=here"] == 1
    assert found["handraise_wake_up_lag_seconds_sum settled=here"] < SOON
    assert found["handraise_http_requests_total method=GET route=/v1/events status=200"] == 1
    assert "handraise_http_request_duration_seconds_count method=GET route=/v1/events" not in found


async def test_what_another_process_settled_is_known_soon_after_its_hint(
    store: str, clock: ManualClock, client: httpx2.AsyncClient, agent: dict[str, str], workspace: str
) -> None:
    name = "handraise_wake_up_lag_seconds_count settled=elsewhere"
    async with asyncio.timeout(SOON), open_server(ServerSettings(url=store), clock=clock) as other:
        # The first hint may come before anybody listens, and is then found out by a poll.
        while name not in (found := await numbers(client)):
            asked = (await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)).json()["id"]
            wait = asyncio.create_task(client.get(f"/v1/questions/{asked}/outcome?wait=60s", headers=agent))
            while (await numbers(client))["handraise_waits"] == 0:
                await asyncio.sleep(0.01)
            await other.desk.scoped(workspace).answer(asked, "yes", by="somebody")
            assert (await wait).json()["status"] == "answered"
    assert "handraise_wake_up_lag_seconds_count settled=here" not in found


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_what_the_store_could_not_do_is_counted_by_call(
    ctx: ServerContext, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = vars(ctx.directory)["_inner"]

    async def refuse(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(inner, "groups", refuse)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await ctx.directory.groups("w")
    assert (await numbers(client))["handraise_store_errors_total call=groups"] == 2


def test_the_age_of_a_task_counts_from_its_start_so_that_its_alert_can_fire() -> None:
    metrics = Metrics()
    metrics.watch_task("count")
    for name in (b'handraise_task_age_seconds{task="count"}', b"handraise_audit_sealed_age_seconds"):
        (line,) = re.findall(rb"^%s (\S+)$" % re.escape(name), metrics.render(), re.MULTILINE)
        assert 0 <= float(line) < SOON
