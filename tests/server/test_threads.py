"""Threads over HTTP: who may write what, and that no agent reads what people note for each other."""

from __future__ import annotations

import asyncio
import socket

import httpx2
import pytest
from fastapi import FastAPI

from handraise import Approval, Question
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_reader_key
from handraise.testing import promise
from support.http_server import listening
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

NOTE = "the customer is my neighbour"
WITHIN = 60.0


@pytest.fixture
async def question(ctx: ServerContext, workspace: str) -> Question:
    """A question of the agent `bot` to ana, about which it can be asked."""
    desk = ctx.desk.scoped(workspace, asker="bot")
    form = Approval.of("refund", {"amount": 300})
    return await desk.post("Refund?", form=form, recipients=["ana", "bo"], replies="program")


@promise("P8")
@pytest.mark.parametrize("write", ["ask-back", "note"])
async def test_only_people_who_may_answer_write_and_only_in_their_own_name(
    client: httpx2.AsyncClient,
    issuer: Issuer,
    ctx: ServerContext,
    workspace: str,
    question: Question,
    write: str,
) -> None:
    ana = await issuer.person(workspace, "ana", role=Role.MEMBER)
    where, message = f"/v1/questions/{question.id}/{write}", {"text": "Why?"}
    strangers = {
        "a colleague who is not asked": (await issuer.person(workspace, "cy", role=Role.MEMBER), 404),
        "an administrator who is not asked": (await issuer.person(workspace, "root", role=Role.ADMIN), 403),
        "somebody of another workspace": (await issuer.person(f"{workspace}-2", "ana"), 404),
        "the agent that asked": (await issuer.agent(workspace, "bot"), 403),
        "an agent with the name of a person": (await issuer.agent(workspace, "ana"), 403),
        "a key that reads": ((await issue_reader_key(ctx, workspace, "board", by="root")).key, 403),
        "nobody": ("hrs_nothing", 401),
    }
    for name, (token, status) in strangers.items():
        said = await client.post(where, json=message, headers=bearer(token))
        assert said.status_code == status, (name, said.text)
        forged = await client.post(where, json={**message, "by": "ana"}, headers=bearer(token))
        assert forged.status_code in (401, 403, 404), (name, forged.text)
    forged = await client.post(where, json={**message, "by": "bo"}, headers=bearer(ana))
    assert forged.status_code == 403, "in the name of a colleague"
    desk = ctx.desk.scoped(workspace)
    assert (await desk.get(question.id)).thread == 0
    written = await client.post(where, json=message, headers=bearer(ana))
    assert (written.status_code, written.json()["thread"]) == (200, 1)
    assert [(each.by, each.text) for each in await desk.thread(question.id)] == [("ana", "Why?")]


@promise("P8")
async def test_only_the_agent_that_asked_replies(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    desk = ctx.desk.scoped(workspace)
    await desk.ask_back(question.id, "Which customer?", by="ana")
    strangers = {
        "another agent": (await issuer.agent(workspace, "other"), 404),
        "a person": (await issuer.person(workspace, "ana", role=Role.MEMBER), 403),
        "an administrator": (await issuer.person(workspace, "root", role=Role.ADMIN), 403),
        "another workspace": (await issuer.agent(f"{workspace}-2", "bot"), 404),
        "nobody": ("hrk_nothing", 401),
    }
    where = f"/v1/questions/{question.id}/reply"
    for name, (token, status) in strangers.items():
        said = await client.post(where, json={"text": "Customer 12."}, headers=bearer(token))
        assert said.status_code == status, (name, said.text)
    assert (await desk.get(question.id)).thread == 1
    agent = bearer(await issuer.agent(workspace, "bot"))
    assert (await client.post(where, json={"text": "Customer 12."}, headers=agent)).status_code == 200


async def test_a_reply_that_nobody_waits_for_is_refused_with_its_reason(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, question: Question
) -> None:
    """The store refuses it, and not the desk before."""
    agent = bearer(await issuer.agent(workspace, "bot"))
    said = await client.post(f"/v1/questions/{question.id}/reply", json={"text": "Hm."}, headers=agent)
    assert (said.status_code, said.json()["code"]) == (409, "nothing_to_reply")


@promise("P8")
async def test_a_thread_is_read_by_those_who_may_see_its_question(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    await ctx.desk.scoped(workspace).note(question.id, NOTE, by="ana")
    for token, status in (
        (await issuer.person(workspace, "bo", role=Role.MEMBER), 200),
        (await issuer.person(workspace, "cy", role=Role.MEMBER), 404),
        (await issuer.person(f"{workspace}-2", "ana"), 404),
        (await issuer.agent(workspace, "other"), 404),
    ):
        read = await client.get(f"/v1/questions/{question.id}/thread", headers=bearer(token))
        assert (read.status_code, NOTE in read.text) == (status, status == 200)


@on_every_store
@promise("P8")
async def test_no_agent_reads_what_people_note_for_each_other(
    app: FastAPI, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    """Each way to read what happened to a question: an agent learns that there is a note, and who wrote it."""
    desk = ctx.desk.scoped(workspace, asker="bot")
    await desk.note(question.id, NOTE, by="ana")
    await desk.ask_back(question.id, "Which customer?", by="bo")
    await desk.reply(question.id, "Customer 12.")
    where = f"/v1/questions/{question.id}"
    ways = (where, f"{where}/history", f"{where}/thread", "/v1/questions", "/v1/feed")
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        async with (
            asyncio.timeout(WITHIN),
            listening(app, door),
            httpx2.AsyncClient(base_url=address) as client,
        ):
            agent = bearer(await issuer.agent(workspace, "bot"))
            person = bearer(await issuer.person(workspace, "bo", role=Role.MEMBER))
            for path in ways:
                assert NOTE not in (read := await client.get(path, headers=agent)).text, path
                assert read.status_code == 200
            streamed = await until_reply(client, agent)
            assert NOTE not in streamed
            assert "event: noted" in streamed
            thread = (await client.get(f"{where}/thread", headers=agent)).json()["items"]
            assert [(each["kind"], each["by"], each["text"]) for each in thread] == [
                ("noted", "ana", ""),
                ("asked_back", "bo", "Which customer?"),
                ("replied", "bot", "Customer 12."),
            ]
            for path in (f"{where}/history", f"{where}/thread", "/v1/feed"):
                assert NOTE in (await client.get(path, headers=person)).text, path
            assert NOTE in await until_reply(client, person)
            await desk.answer(question.id, "deny", by="bo")
            reader = bearer((await issue_reader_key(ctx, workspace, "board", by="root")).key)
            for path in (where, f"{where}/history", f"{where}/thread"):
                assert NOTE not in (read := await client.get(path, headers=reader)).text, path
                assert read.status_code == 200


async def until_reply(client: httpx2.AsyncClient, headers: dict[str, str]) -> str:
    """What a stream from the beginning says, up to the agent's reply."""
    said = ""
    async with client.stream("GET", "/v1/events", params={"after": "0"}, headers=headers) as response:
        async for text in response.aiter_text():
            said += text
            if "event: replied" in said and said.endswith("\n\n"):
                break
    return said


@promise("P15")
async def test_an_approval_over_http_says_how_much_it_covers(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    await ctx.desk.scoped(workspace).note(question.id, "look closer", by="bo")
    ana = bearer(await issuer.person(workspace, "ana", role=Role.MEMBER))
    where, approve = f"/v1/questions/{question.id}/answer", {"value": "approve"}
    for seen in ({}, {"seen": 0}, {"seen": 2}):
        refused = await client.post(where, json=approve | seen, headers=ana)
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_moved")
        assert refused.json()["thread"] == 1
    assert (await client.post(where, json=approve | {"seen": 1}, headers=ana)).status_code == 200
