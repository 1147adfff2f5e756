"""What a stranger may ask a server: is it alive, is it ready, what are its numbers."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from handraise.model.errors import StoreUnavailable
from handraise.server import ServerContext, create_app


async def test_alive_and_ready_need_no_credential(client: httpx2.AsyncClient) -> None:
    assert ((await client.get("/healthz")).status_code, (await client.get("/readyz")).status_code) == (
        200,
        200,
    )


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("gives", ["an error", "silence"])
async def test_a_store_that_does_not_answer_makes_it_unready_but_not_dead(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    gives: str,
) -> None:
    monkeypatch.setattr("handraise.server.store_check._TIMEOUT", 0.01)
    monkeypatch.setattr("handraise.server.store_check._CACHE_SECONDS", 0.0)

    async def durability() -> Any:
        if gives == "silence":
            await asyncio.Event().wait()
        raise StoreUnavailable("PostgreSQL cannot do this now: no pg_hba.conf entry for user secret")

    monkeypatch.setattr(ctx.store, "durability", durability, raising=False)
    refused = [await client.get("/readyz") for _ in range(3)][-1]
    assert refused.status_code == 503
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.headers["retry-after"] == "2"
    assert refused.json()["detail"] == "The store does not answer."
    assert "secret" not in refused.text
    assert (await client.get("/healthz")).status_code == 200
    assert "handraise_store_up 0.0\nhandraise_ready 0.0" in await samples(client)
    monkeypatch.undo()
    monkeypatch.setattr("handraise.server.store_check._CACHE_SECONDS", 0.0)
    assert (await client.get("/readyz")).status_code == 200
    assert "handraise_store_up 1.0\nhandraise_ready 1.0" in await samples(client)
    # However often it was asked: one line when the store was lost, and one when it was back.
    lines = [each for each in caplog.records if each.name == "handraise.server.store_check"]
    assert [vars(each)["event"] for each in lines] == ["store_lost", "store_back"]
    assert "()" not in lines[0].getMessage()


async def samples(client: httpx2.AsyncClient) -> str:
    """Whether the store is up, then whether the server is ready."""
    lines = (await client.get("/metrics")).text.splitlines()
    return "\n".join(
        sorted(
            (each for each in lines if each.startswith(("handraise_store_up ", "handraise_ready "))),
            reverse=True,
        )
    )


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_many_who_ask_at_once_make_one_question_to_the_store(
    ctx: ServerContext, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    real = ctx.store.durability

    async def durability() -> Any:
        nonlocal asked
        asked += 1
        return await real()

    monkeypatch.setattr(ctx.store, "durability", durability, raising=False)
    await ctx.store_check.store_answers()  # the check of the background is over
    vars(ctx.store_check)["_checked_at"] = float("-inf")
    asked = 0
    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(20)))
    assert {each.status_code for each in answers} == {200}
    assert asked == 1


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_server_that_is_leaving_is_not_ready(ctx: ServerContext) -> None:
    transport = httpx2.ASGITransport(app=create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        ctx.is_draining = True
        refused = await client.get("/readyz")
        assert (refused.status_code, refused.json()["detail"]) == (503, "This server is stopping.")
