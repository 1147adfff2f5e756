"""Heartbeats over HTTP: what an agent may say, and whose waits count."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from handraise.heartbeats import Heartbeats
from handraise.server import ServerContext
from handraise.testing import ManualClock
from support.issuer import Issuer

SOON = 10.0


async def test_an_agent_gives_signs_for_its_own_questions(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str, clock: ManualClock
) -> None:
    desk = ctx.desk.scoped(workspace, asker="bot")
    mine, plain = await desk.post("Mine?", heartbeat="1m"), await desk.post("Plain?")
    others = await desk.scoped(asker="other").post("Others?", heartbeat="1m")
    clock.advance(timedelta(minutes=5))
    agent = {"authorization": f"Bearer {await issuer.agent(workspace, 'bot')}"}
    ids = [mine.id, plain.id, others.id, "unknown", "\x00", mine.id]
    said = await client.post("/v1/heartbeats", json={"ids": ids}, headers=agent)
    assert (said.status_code, said.json()) == (200, {"heartbeats": {mine.id: 60.0}})
    assert (await desk.get(others.id)).heard_at == others.asked_at
    refused: list[Any] = [["a"] * 1_001, "a", [1], ["a" * 201], None]
    for ids_given in refused:
        answer = await client.post("/v1/heartbeats", json={"ids": ids_given}, headers=agent)
        assert answer.status_code == 422
    person = {"authorization": f"Bearer {await issuer.person(workspace, 'ann')}"}
    assert (await client.post("/v1/heartbeats", json={"ids": ids}, headers=person)).status_code == 403


async def test_only_the_wait_of_the_agent_is_a_sign(
    client: httpx2.AsyncClient,
    ctx: ServerContext,
    issuer: Issuer,
    workspace: str,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The server's own desk has the name that agents have if nobody gives them another.
    desk = ctx.desk.scoped(workspace, asker="agent")
    question = await desk.post("Which?", heartbeat="1m")
    clock.advance(timedelta(minutes=5))
    beats: list[str] = []

    async def noted(refs: Any, asker: str) -> Any:
        beats.append(asker)
        return await ctx.engine.store.beat(refs, by=asker)

    monkeypatch.setattr(ctx.engine, "heartbeats", Heartbeats(noted, first=0.05))
    path = f"/v1/questions/{question.id}/outcome?wait=400ms"
    for token in (await issuer.person(workspace, "ann"), await issuer.agent(workspace, "agent")):
        heard = (await desk.get(question.id)).heard_at
        await asyncio.wait_for(client.get(path, headers={"authorization": f"Bearer {token}"}), SOON)
        assert beats, "the wait was too short"
        assert ((await desk.get(question.id)).heard_at == heard) == ("person:ann" in beats)
        beats.clear()
    await ctx.engine.heartbeats.close()
