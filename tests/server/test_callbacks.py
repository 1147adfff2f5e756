"""Callbacks over HTTP: who is called, who learns of it, and that a killed server calls the asker all the same."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
import socket
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from standardwebhooks import Webhook as Reference

from handraise import Answered, blocking, open_desk
from handraise.callbacks import Callback, verify_callback
from handraise.desk_factory import open_backend
from handraise.model.identities import Role
from handraise.model.questions import Ref
from handraise.server import ServerContext, ServerSettings
from handraise.server.observability.logs import configure_logs
from support.http_server import listening
from support.issuer import Issuer
from support.server_process import SharedClock, start_server
from support.webhook_receiver import Got, Receiver, Says, receiving
from tests.server.conftest import bearer, on_every_store

WITHIN = 15.0
SECRET = "whsec_" + base64.b64encode(b"canary 9d7f of a callback").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of a callback").decode()
ALLOWED = {"webhooks": True, "webhook_allow_private": ["127.0.0.0/8"], "poll_interval": 0.1}
Headers = dict[str, str]


@pytest.fixture
def settings() -> dict[str, Any]:
    return {**ALLOWED, "callback_hosts": ["127.0.0.1", "localhost"]}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def bot(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


def asking(receiver: Receiver, **changes: Any) -> dict[str, Any]:
    callback = {"url": receiver.url, "secret": SECRET}
    return {
        "prompt": "Go?",
        "form": {"kind": "confirm"},
        "state": {"mine": 1},
        "callback": callback,
    } | changes


async def came(receiver: Receiver, number: int = 1) -> list[Got]:
    async with asyncio.timeout(WITHIN):
        while len(receiver.got) < number:
            await asyncio.sleep(0.02)
    return receiver.got


@on_every_store
@pytest.mark.parametrize("path", ["/v1/questions", "/v1/questions:batch"])
async def test_an_agent_without_a_connection_is_told_how_its_question_ended(
    client: httpx2.AsyncClient, receiver: Receiver, bot: Headers, ann: Headers, path: str
) -> None:
    body = asking(receiver, key="refund-7")
    batch = path.endswith(":batch")
    said = await client.post(path, json={"questions": [body]} if batch else body, headers=bot)
    assert SECRET[6:] not in said.text
    asked = said.json()["results"][0]["question"] if batch else said.json()
    assert "callback" not in asked
    await client.post(f"/v1/questions/{asked['id']}/answer", json={"value": True}, headers=ann)
    [got] = await came(receiver)
    Reference(SECRET).verify(got.body, got.headers)
    event = verify_callback(got.headers, got.body, secret=SECRET)
    assert (event.question_id, event.asker, event.key) == (asked["id"], "bot", "refund-7")
    assert isinstance(event.outcome, Answered)
    assert (event.outcome.value, event.outcome.by) == (True, "ann")
    assert b"mine" not in got.body


async def test_an_ordinary_request_and_any_other_keep_the_callback(
    client: httpx2.AsyncClient, ctx: ServerContext, receiver: Receiver, bot: Headers
) -> None:
    for content_type in (
        "application/json",
        "application/json; charset=utf-8",
    ):  # a fast route, and FastAPI's
        content = httpx2.Request("POST", "http://x", json=asking(receiver)).content
        said = await client.post(
            "/v1/questions", content=content, headers={**bot, "content-type": content_type}
        )
        question = await ctx.desk.scoped(said.json()["workspace"]).get(said.json()["id"])
        assert len(await ctx.outbox.deliveries(question.ref)) == 1


async def test_a_remote_desk_and_a_blocking_one_post_callbacks(
    app: FastAPI, ctx: ServerContext, receiver: Receiver, issuer: Issuer, workspace: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        key = await issuer.agent(workspace, "bot")
        async with listening(app, door), open_desk(url, credentials=key) as desk:
            question = await desk.post("Go?", callback=Callback(receiver.url, SECRET))
            assert question.callback is None
            again = await desk.post("Stay?", key="k", callback=Callback(receiver.url, SECRET))
            kept = await desk.post("Stay?", key="k", callback=Callback(receiver.url, OTHER))
            assert again.id == kept.id

            def block() -> str:
                with blocking.open_desk(url, credentials=key) as desk:
                    return desk.post("Run?", callback=Callback(receiver.url, SECRET)).id

            ids = [question.id, again.id, await asyncio.to_thread(block)]
            for each in ids:
                await ctx.desk.scoped(workspace).answer(each, "yes", by="ann")
            events = [
                verify_callback(got.headers, got.body, secret=SECRET) for got in await came(receiver, 3)
            ]
            assert {each.question_id for each in events} == set(ids)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"url": "https://evil.example/"}, "callback.url"),
        ({"url": "https://user:pw@127.0.0.1/"}, "callback.url"),
        ({"url": "https://127.0.0.1/\r\nx: y"}, "callback.url"),
        ({"url": "https://127.0.0.1/" + "x" * 2_000}, "callback.url"),
        ({"url": "https://10.0.0.1/"}, "callback.url"),
        ({"secret": SECRET[:20]}, "callback.secret"),
        ({"secret": [SECRET]}, "body.callback.secret"),
        ({"url": 7}, "body.callback.url"),
        ({"headers": {"x": "y"}}, "body.callback.headers"),
    ],
    ids=str,
)
async def test_a_callback_that_cannot_be_made_is_refused_and_not_repeated(
    client: httpx2.AsyncClient, ctx: ServerContext, bot: Headers, change: dict[str, Any], path: str
) -> None:
    callback = {"url": "https://127.0.0.1/", "secret": SECRET} | change
    said = await client.post("/v1/questions", json={"prompt": "Go?", "callback": callback}, headers=bot)
    assert said.status_code == 422
    assert [each["path"] for each in said.json()["problems"]] == [path]
    assert SECRET[6:26] not in said.text
    assert not (await ctx.desk.scoped(None).list_pending()).items


@pytest.mark.parametrize("settings", [{}, ALLOWED])
async def test_a_server_calls_nobody_back_unless_its_operator_says_where(
    client: httpx2.AsyncClient, receiver: Receiver, bot: Headers
) -> None:
    said = await client.post("/v1/questions", json=asking(receiver), headers=bot)
    assert said.status_code == 422
    assert "HANDRAISE_CALLBACK_HOSTS" in said.text


@pytest.mark.parametrize(
    "given",
    [
        {"callback_hosts": ["agent.example"]},
        {"webhooks": True, "callback_hosts": ["https://agent.example"]},
        {"webhooks": True, "callback_hosts": ["agent.example:443"]},
        {"webhooks": True, "callback_hosts": [""]},
    ],
    ids=str,
)
def test_hosts_that_could_never_be_called_are_noticed_at_the_start(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"HANDRAISE_WEBHOOKS|is not a host"):
        ServerSettings(**given)


async def test_reviewers_see_which_host_is_told_and_others_see_nothing(
    client: httpx2.AsyncClient, receiver: Receiver, issuer: Issuer, workspace: str, bot: Headers, ann: Headers
) -> None:
    pager = {"to": {"url": receiver.url, "secret": OTHER}}
    await client.put(
        "/v1/addresses/ann/webhook/1", json=pager, headers=bearer(await issuer.person(workspace, "boss"))
    )
    body = asking(receiver, recipients=["ann"])
    asked = (await client.post("/v1/questions", json=body, headers=bot)).json()
    await came(receiver)  # ann's own message
    where = f"/v1/questions/{asked['id']}/deliveries"
    for who, number in ((bot, 1), (ann, 2)):
        found = (await client.get(where, headers=who)).json()["deliveries"]
        assert len(found) == number
        (shown,) = [each for each in found if each["reason"] == "callback"]
        assert (shown["recipient"], shown["reason"], shown["status"]) == ("bot", "callback", "waiting")
        assert SECRET[6:] not in str(shown)
        assert receiver.url not in str(shown)
    for token in (await issuer.agent(workspace, "eve"), await issuer.agent(f"{workspace}-2", "bot")):
        assert (await client.get(where, headers=bearer(token))).status_code == 404
    page = await client.get(f"/questions/{asked['id']}", headers={**ann, "accept": "text/html"})
    assert f"A callback to bot at 127.0.0.1:{receiver.port}" in page.text
    assert SECRET[6:] not in page.text
    assert "from=handraise" not in page.text


async def test_an_agent_cannot_learn_from_its_callback_what_is_on_the_network(
    client: httpx2.AsyncClient, ctx: ServerContext, workspace: str, bot: Headers
) -> None:
    callback = {"url": "https://localhost:9/", "secret": SECRET}
    asked = (
        await client.post("/v1/questions", json={"prompt": "Go?", "callback": callback}, headers=bot)
    ).json()
    await ctx.desk.scoped(workspace, asker="bot").withdraw(asked["id"])
    async with asyncio.timeout(WITHIN):
        while True:
            found = await client.get(f"/v1/questions/{asked['id']}/deliveries", headers=bot)
            (shown,) = found.json()["deliveries"]
            if shown["tries"]:
                break
            await asyncio.sleep(0.02)
    assert (shown["status"], shown["problem"]) == ("waiting", None)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_the_secret_is_nowhere_but_with_the_delivery(
    client: httpx2.AsyncClient, store: str, receiver: Receiver, bot: Headers, ann: Headers
) -> None:
    handlers, stream = list(logging.getLogger().handlers), io.StringIO()
    configure_logs(ServerSettings(log_format="json", log_level="debug"), stream)
    try:
        once = {**bot, "idempotency-key": "k"}
        asked = (await client.post("/v1/questions", json=asking(receiver), headers=once)).json()
        await client.post(f"/v1/questions/{asked['id']}/answer", json={"value": True}, headers=ann)
        await came(receiver)
        shown = [
            (await client.get(f"/v1/questions/{asked['id']}{path}", headers=who)).text
            for path in ("", "/events", "/deliveries", "/outcome")
            for who in (bot, ann)
        ]
    finally:
        logging.captureWarnings(False)
        logging.getLogger().handlers = handlers
    assert all(
        SECRET[6:] not in each and "from=handraise" not in each for each in (*shown, stream.getvalue())
    )
    with closing(sqlite3.connect(store.removeprefix("sqlite:///"))) as look:
        names = [name for (name,) in look.execute("select name from sqlite_master where type = 'table'")]
        rows = {name: repr(list(look.execute(f'select * from "{name}"'))) for name in names}  # noqa: S608 -- names from the file
    assert {name for name, text in rows.items() if SECRET[6:] in text} == {"deliveries"}


@pytest.mark.slow(
    "it starts two servers; the outbox contract shows that a callback outlives what was leased and not recorded"
)
async def test_a_server_that_is_killed_before_a_callback_is_taken_makes_the_same_one_again(
    tmp_path: Path, receiver: Receiver, workspace: str
) -> None:
    url, clock_file = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "clock"
    clock_file.touch()
    clock = SharedClock(clock_file)
    async with open_backend(url, clock=clock) as ports:
        issuer = Issuer(ports.directory)
        bot, ann = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ann")
    hosts = {
        "poll_interval": "0.1",
        "webhooks": "true",
        "webhook_allow_private": '["127.0.0.0/8"]',
        "callback_hosts": '["127.0.0.1"]',
    }

    async def hang(got: Got) -> Says:
        del got
        await asyncio.Event().wait()
        return Says()

    receiver.answer = hang
    first = start_server(url, clock_file, 0, **hosts)
    try:
        async with httpx2.AsyncClient(base_url=await address_of(first)) as client:
            called, untold = [
                (await client.post("/v1/questions", json=asking(receiver), headers=bearer(bot))).json()["id"]
                for _ in range(2)
            ]
            path = f"/v1/questions/{called}/answer"
            assert (await client.post(path, json={"value": True}, headers=bearer(ann))).status_code == 200
            await came(receiver)  # settled, and nobody has taken the callback yet
    finally:
        first.kill()
        first.wait()
        first.stdout.close()  # type: ignore[union-attr]  # it is a pipe

    async def yes(got: Got) -> Says:
        del got
        return Says()

    async with open_desk(url, workspace=workspace, clock=clock) as desk:
        await desk.answer(untold, True, by="ann")  # settled while no server runs
    receiver.answer = yes
    clock.advance(timedelta(minutes=2))
    second = start_server(url, clock_file, 0, **hosts)
    try:
        await address_of(second)
        await came(receiver, 3)
        async with open_backend(url, clock=clock) as ports, asyncio.timeout(WITHIN):
            for question in (called, untold):
                while (await ports.outbox.deliveries(Ref(workspace, question)))[0].due_at is not None:
                    await asyncio.sleep(0.05)
    finally:
        second.terminate()
        await asyncio.to_thread(second.wait)
        second.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    events = [verify_callback(each.headers, each.body, secret=SECRET) for each in receiver.got]
    assert sorted(each.question_id for each in events) == sorted([called, called, untold])
    assert len({(got.headers["webhook-id"], got.body) for got in receiver.got}) == 2


async def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    port = (await asyncio.to_thread(process.stdout.readline)).strip()
    assert port, "the server did not start"
    return f"http://127.0.0.1:{port}"
