"""A desk at a server when things go wrong in between: nothing is lost, doubled, or taken for something else."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handraise import (
    Answered,
    Desk,
    InvalidQuestion,
    PermissionDenied,
    StillPending,
    StoreUnavailable,
    open_desk,
    waiters,
)
from handraise.client import RemoteDesk, event_listener, http_transport
from handraise.errors import TooManyRequests, Unauthenticated
from handraise.model.identities import Role
from handraise.model.provenance import Provenance
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import Person, PersonError, promise
from support.issuer import Issuer
from tests.certificates import certificate
from tests.tiers import sized

SOON = 10.0
Between = Callable[[ASGIApp], ASGIApp]


@asynccontextmanager
async def served(app: ASGIApp, *, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """A real server for this application; gives its address."""
    config = uvicorn.Config(
        app, port=port, log_config=None, timeout_graceful_shutdown=1, lifespan="off", **options
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(SOON):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def ctx() -> AsyncIterator[ServerContext]:
    async with open_server(ServerSettings(url="memory:", heartbeat=0.2)) as ctx:
        yield ctx


@pytest.fixture
def issuer(ctx: ServerContext) -> Issuer:
    return Issuer(ctx.directory)


@asynccontextmanager
async def remote(ctx: ServerContext, issuer: Issuer, between: Between | None = None) -> AsyncIterator[Desk]:
    """A desk at a server with something in between; only hints can wake its waits in time."""
    app = create_app(ctx)
    async with (
        served(app if between is None else between(app)) as address,
        open_desk(address, credentials=issuer, poll_interval=10 * SOON) as desk,
    ):
        yield desk
    ctx.stopping.clear()


def refusing(path: str, status: int) -> Between:
    """Refuses a path, as a proxy would that knows nothing of streams."""

    def between(app: ASGIApp) -> ASGIApp:
        async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] != path:
                await app(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})

        return refuse

    return between


def keeping(app: ASGIApp) -> ASGIApp:
    """Keeps what is streamed to itself, as a proxy would that buffers."""

    async def keep(scope: Scope, receive: Receive, send: Send) -> None:
        async def hold(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)

        await app(scope, receive, hold if scope["path"] == "/v1/events" else send)

    return keep


async def test_another_web_server_at_the_address_is_told_at_once() -> None:
    async def another(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"Not Found"})

    async with served(another) as address, asyncio.timeout(SOON):
        with pytest.raises(
            StoreUnavailable, match=r"is not a Handraise server, or .* it said 404"
        ) as refused:
            async with open_desk(address, credentials="hra_x"):
                pass
        assert address in str(refused.value)


async def test_a_dead_server_is_told_soon_and_not_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_transport, "_OPENING_PATIENCE", 0.1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            async with asyncio.timeout(SOON), open_desk(address, credentials="hra_x"):
                pass
    told = [record for record in caplog.records if "Trying again" in record.getMessage()]
    assert len(told) == 1
    assert address in told[0].getMessage()


async def test_a_question_from_a_server_has_its_page(ctx: ServerContext, issuer: Issuer) -> None:
    async with remote(ctx, issuer) as desk:
        question = await desk.post("Which?")
        assert question.url == f"{ctx.settings.base_url}/questions/{question.id}"
        assert (await desk.get(question.id)).url == question.url


@promise("P4")
@pytest.mark.parametrize("between", [None, refusing("/v1/events", 404), refusing("/v1/events", 503), keeping])
async def test_a_wait_is_woken_with_a_stream_or_without(
    ctx: ServerContext, issuer: Issuer, between: Between | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listener, "_FIRST_WITHIN", 0.3)
    async with remote(ctx, issuer, between) as desk:
        for _ in range(sized(gate=1, nightly=3)):
            question = await desk.post("Which?")
            woken = asyncio.create_task(desk.wait(question.id, timeout=SOON))
            with pytest.raises(StillPending):
                await desk.wait(question.id, timeout=0.7)
            await ctx.desk.scoped("default").answer(question.id, "a", by="ana")
            assert isinstance(await woken, Answered)


@promise("P1", "P9")
async def test_a_post_whose_reply_is_lost_is_one_question(ctx: ServerContext, issuer: Issuer) -> None:
    lost = 0

    def losing(app: ASGIApp) -> ASGIApp:
        async def lose(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal lost
            if scope["method"] != "POST" or lost >= 3:
                await app(scope, receive, send)
                return
            lost += 1

            async def swallow(message: Message) -> None:
                del message

            await app(scope, receive, swallow)
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body", "body": b"bad gateway"})

        return lose

    async with remote(ctx, issuer, losing) as desk:
        question = await desk.post("Which?")
        assert lost == 3
        assert (await desk.list_pending()).items == [question]
        assert len(await desk.history(question.id)) == 1
        lost = 0
        answered = await desk.answer(question.id, "a", by="ana")
        assert (answered.status, lost) == ("answered", 3)
        assert len(await desk.history(question.id)) == 2


async def test_where_one_server_is_down_the_next_is_asked(ctx: ServerContext, issuer: Issuer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with (
            served(create_app(ctx)) as address,
            open_desk(f"{nobody},{address}", credentials=issuer) as desk,
        ):
            question = await desk.post("Which?")
            await desk.answer(question.id, "a", by="ana")
            assert isinstance(await desk.wait(question.id, timeout=SOON), Answered)


async def test_a_server_that_comes_back_is_found_again(ctx: ServerContext, issuer: Issuer) -> None:
    app = create_app(ctx)
    async with served(app) as address:
        port = int(address.rsplit(":", 1)[1])
    async with open_desk(address, credentials=issuer) as desk:
        posting = asyncio.create_task(desk.post("Which?"))
        await asyncio.sleep(0.2)
        assert not posting.done()
        async with served(app, port=port):
            assert (await posting).status == "pending"


async def test_a_server_that_stays_away_is_said_to(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_transport, "_PATIENCE", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with open_desk(f"http://127.0.0.1:{taken.getsockname()[1]}", credentials=issuer) as desk:
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await desk.post("Which?")


def forget_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose are trusted is read anew, as in a new process, until the test ends."""
    monkeypatch.setattr(http_transport, "_trusted", cache(http_transport._trusted.__wrapped__))  # noqa: SLF001 -- what reads them


async def test_a_server_whose_certificate_is_not_trusted_or_is_anothers_hears_nothing(
    ctx: ServerContext, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(http_transport, "_PATIENCE", 0.2)
    forget_certificates(monkeypatch)
    known, key = certificate(tmp_path, "localhost")
    async with served(create_app(ctx), ssl_certfile=known, ssl_keyfile=key) as address:
        port = address.rpartition(":")[2]
        async with open_desk(f"https://localhost:{port}", credentials=issuer) as desk:
            with pytest.raises(StoreUnavailable):
                await desk.post("Which?")
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        forget_certificates(monkeypatch)
        for host in ("localhost", "127.0.0.1"):
            async with open_desk(f"https://{host}:{port}", credentials=issuer) as desk:
                with nullcontext() if host == "localhost" else pytest.raises(StoreUnavailable):
                    await desk.post("Which?")
    assert len((await ctx.desk.scoped("default").list_pending()).items) == 1


async def test_the_systems_certificates_are_read_once_for_all_desks(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read: list[None] = []
    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate(tmp_path, "desk.example.org")[0]))
    forget_certificates(monkeypatch)
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda *given, **more: read.append(load(*given, **more))
    )
    for _ in range(3):
        async with open_desk("https://desk.example.org", credentials=issuer):
            pass
    assert len(read) == 1


async def test_too_many_requests_come_back_when_they_are_told_to(
    ctx: ServerContext, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [0.01, 0.02, 100.0]

    def limiting(app: ASGIApp) -> ASGIApp:
        async def limit(scope: Scope, receive: Receive, send: Send) -> None:
            if not refusals or scope["path"] != "/v1/questions":
                await app(scope, receive, send)
                return
            document = {
                "type": "",
                "title": "",
                "status": 429,
                "code": "too_many_requests",
                "detail": "",
                "retry_after": refusals.pop(0),
            }
            headers = [(b"content-type", b"application/problem+json")]
            await send({"type": "http.response.start", "status": 429, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(document).encode()})

        return limit

    monkeypatch.setattr(http_transport, "_PATIENCE", 1.0)
    async with remote(ctx, issuer, limiting) as desk:
        with pytest.raises(TooManyRequests) as refused:
            await desk.post("Which?")
        assert refused.value.retry_after == 100.0
        assert (await desk.post("Which?")).status == "pending"


@pytest.mark.parametrize("key", ["hra_mq_" + "A" * 43, "no key"])
async def test_a_key_that_nobody_knows_opens_nothing(ctx: ServerContext, key: str) -> None:
    async with served(create_app(ctx)) as address:
        with pytest.raises(Unauthenticated):
            async with open_desk(address, credentials=key):
                pass


async def test_no_key_at_all_says_where_to_put_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HANDRAISE_KEY", raising=False)
    with pytest.raises(Unauthenticated, match="HANDRAISE_KEY"):
        async with open_desk("http://127.0.0.1:1"):
            pass


async def test_the_desk_of_a_key_is_its_agents_and_answers_nothing(
    ctx: ServerContext, issuer: Issuer
) -> None:
    key = await issuer.agent("lab", "robot")
    async with served(create_app(ctx)) as address, open_desk(address, credentials=key) as desk:
        assert isinstance(desk, RemoteDesk)
        assert (desk.workspace, desk.asker) == ("lab", "robot")
        question = await desk.post("Which?", state={"step": 1})
        assert (await desk.get(question.id)).state == {"step": 1}
        tries: list[Awaitable[object]] = [
            desk.answer(question.id, "a", by="robot"),
            desk.answer(question.id, "a", by="ana"),
            desk.decline(question.id, by="ana"),
            desk.list_grants(),
            desk.list_pending(recipient="ana"),
        ]
        for forbidden in tries:
            with pytest.raises(PermissionDenied):
                await forbidden
        assert (await desk.get(question.id)).status == "pending"


async def test_the_desk_of_a_person_answers_in_their_own_name_only(
    ctx: ServerContext, issuer: Issuer
) -> None:
    question = await ctx.desk.scoped("lab", asker="robot").post("Which?", state={"secret": 1})
    session = await issuer.person("lab", "ana", role=Role.MEMBER)
    async with served(create_app(ctx)) as address, open_desk(address, credentials=session) as desk:
        assert (await desk.get(question.id)).state is None
        with pytest.raises(PermissionDenied, match="no other"):
            await desk.answer(question.id, "a", by="bob")
        with pytest.raises(PermissionDenied):
            await desk.post("May I ask?")
        answered = await desk.answer(question.id, "a", by="ana", provenance=Provenance(channel="terminal"))
        assert isinstance(answered.outcome, Answered)
        assert (answered.outcome.by, answered.outcome.evidence) == ("ana", "session")


async def test_a_stream_that_is_cut_goes_on_where_it_was(ctx: ServerContext, issuer: Issuer) -> None:
    async with (
        served(create_app(ctx)) as address,
        open_desk(address, credentials=issuer) as desk,
        aclosing(desk.follow(after="")) as events,
    ):
        first = await desk.post("One?")
        assert (await anext(events)).question_id == first.id
        ctx.stopping.set()  # every stream ends here
        await asyncio.sleep(0.05)
        ctx.stopping.clear()
        second = await desk.post("Two?")
        async with asyncio.timeout(SOON):
            assert (await anext(events)).question_id == second.id


async def test_what_people_ask_back_is_heard_after_heartbeats(ctx: ServerContext, issuer: Issuer) -> None:
    async with remote(ctx, issuer) as desk, asyncio.timeout(SOON):
        question = await desk.post("Deploy?", replies="program")
        async with aclosing(desk.messages(question.id)) as messages:
            first = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(3 * ctx.settings.heartbeat)
            await desk.ask_back(question.id, "Which version?", by="ana")
            assert (await first).text == "Which version?"


async def test_a_key_is_good_for_its_own_name_only(ctx: ServerContext, issuer: Issuer) -> None:
    key = await issuer.agent("lab", "robot")
    async with served(create_app(ctx)) as address:
        for wrong in ({"workspace": "elsewhere"}, {"asker": "somebody"}):
            with pytest.raises(PermissionDenied, match="'robot' in workspace 'lab'"):
                async with open_desk(address, credentials=key, **wrong):  # type: ignore[arg-type]  # one at a time
                    pass
        async with open_desk(address, credentials=key, workspace="lab", asker="robot") as desk:
            with pytest.raises(PermissionDenied):
                await desk.scoped("elsewhere").post("Which?")
            with pytest.raises(PermissionDenied, match="session of a person"):
                await desk.answer("x", "a", by="ana")


@promise("P10", "P13")
async def test_a_wait_keeps_its_timeout_while_the_server_is_down_and_does_not_say_what_it_does_not_know(
    ctx: ServerContext, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "_LAST_LOOK", 0.2)
    async with served(create_app(ctx)) as address, open_desk(address, credentials=issuer) as desk:
        question = await desk.post("Go?")
    await ctx.desk.answer(question.id, "yes", by="ana")
    async with open_desk(address, credentials=issuer) as desk:
        for wait in (desk.wait(question.id, timeout=0.1), desk.wait_any([question.id], timeout=0.1)):
            with pytest.raises(StoreUnavailable, match="whether there is an answer"):
                async with asyncio.timeout(SOON):
                    await wait


async def test_an_address_of_something_else_is_said_to_be_that(issuer: Issuer) -> None:
    async def somebody(_: Scope, __: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"<h1>Welcome</h1>"})

    async with served(somebody) as address:
        with pytest.raises(StoreUnavailable, match="address of a Handraise server"):
            async with open_desk(address, credentials="hra_mq_" + "A" * 43):
                pass
        async with open_desk(f"{address} , {address}", credentials=issuer) as desk:
            with pytest.raises(StoreUnavailable, match="address of a Handraise server"):
                await desk.get("a-question")


async def test_an_id_that_no_server_takes_is_told_at_once(ctx: ServerContext, issuer: Issuer) -> None:
    async with (
        served(create_app(ctx)) as address,
        open_desk(address, credentials=issuer, new_id=lambda: "a/b c") as desk,
    ):
        with pytest.raises(InvalidQuestion, match="does not accept this id"):
            await desk.post("Which?")


async def test_a_person_of_the_testing_kit_answers_at_a_server_too(
    ctx: ServerContext, issuer: Issuer
) -> None:
    async with remote(ctx, issuer) as desk, asyncio.timeout(2 * SOON):
        async with Person(desk) as ana:
            ana.answers("Which*", "a")
            assert await desk.ask("Which?", choices=["a", "b"]) == "a"
        with pytest.raises(PersonError, match="does not expect"):
            await _ask_with_somebody_there(desk)


async def _ask_with_somebody_there(desk: Desk) -> None:
    async with Person(desk):
        await desk.ask("What?")
