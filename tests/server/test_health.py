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
async def test_a_store_that_does_not_answer_leaves_the_server_ready(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    gives: str,
) -> None:
    monkeypatch.setattr("handraise.server.store_check._TIMEOUT", 0.01)

    async def durability() -> Any:
        if gives == "silence":
            await asyncio.Event().wait()
        raise StoreUnavailable("PostgreSQL cannot do this now: no pg_hba.conf entry for user secret")

    monkeypatch.setattr(ctx.store, "durability", durability, raising=False)
    for _ in range(3):
        await ctx.store_check.run()
    # It is away from all servers: each says so in its own words, instead of a proxy that has no server left.
    assert (await client.get("/readyz")).status_code == 200
    assert (await client.get("/healthz")).status_code == 200
    assert "handraise_store_up 0.0\nhandraise_ready 1.0" in await samples(client)
    monkeypatch.undo()
    await ctx.store_check.run()
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
async def test_a_server_that_is_leaving_is_not_ready(ctx: ServerContext) -> None:
    transport = httpx2.ASGITransport(app=create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        ctx.is_draining = True
        refused = await client.get("/readyz")
        assert (refused.status_code, refused.json()["detail"]) == (503, "This server is stopping.")
