"""One line for each request, and nothing in it that somebody could use or that a terminal would obey."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

import httpx2
import pytest
from fastapi import FastAPI

from handraise.server import ServerContext, ServerSettings
from handraise.server.auth.issuer import issue_question_link
from handraise.server.observability.logs import configure_logs
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)

EVIL = "agent\x1b[2J\r\n{}\x9b31m\u202e\u2028"


class Log(io.StringIO):
    """What was logged."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == "request"]


def log_as(log_format: Literal["json", "console"]) -> Iterator[Log]:
    """Log as `serve` does, and leave logging as it was found."""
    names = ("", "uvicorn", "httpx2", "httpcore2")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers = list(logging.getLogger().handlers)
    stream = Log()
    configure_logs(ServerSettings(log_format=log_format, log_level="info"), stream)
    try:
        yield stream
    finally:
        logging.captureWarnings(False)
        logging.getLogger().handlers = handlers
        for logger, level in before:
            logger.setLevel(level)


@pytest.fixture
def log(ctx: ServerContext) -> Iterator[Log]:
    del ctx  # what its opening says is not looked at
    yield from log_as("json")


@pytest.fixture
def console(ctx: ServerContext) -> Iterator[Log]:
    del ctx
    yield from log_as("console")


async def test_a_request_leaves_one_line_without_body_query_or_token(
    log: Log, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    key, session = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    asked = await client.post(
        "/v1/questions",
        json={"prompt": "secret-prompt", "state": "secret-state"},
        headers=bearer(key) | {"x-request-id": "my-own.id_1"},
    )
    assert asked.headers["x-request-id"] == "my-own.id_1"
    place = f"/v1/questions/{asked.json()['id']}"
    await client.post(f"{place}/answer", json={"value": "secret-answer"}, headers=bearer(session))
    await client.get(f"{place}?q=secret-query", headers=bearer(session))
    await client.get("/sign-in/link?token=hrl_secret")
    await client.get("/healthz")
    first, second, third, fourth = log.requests
    seconds = first.pop("seconds")
    first.pop("timestamp")
    assert 0 < seconds < 60
    assert first == {
        "event": "request",
        "message": "request",
        "level": "info",
        "logger": "handraise.server.observability.request_log",
        "method": "POST",
        "route": "/v1/questions",
        "status": 201,
        "client": "192.0.2.1",
        "workspace": workspace,
        "caller": "agent:bot",
        "question": asked.json()["id"],
        "request_id": "my-own.id_1",
    }
    assert (second["route"], second["caller"]) == ("/v1/questions/{question_id}/answer", "person:ada")
    assert (third["route"], third["status"]) == ("/v1/questions/{question_id}", 200)
    assert fourth["route"] == "/sign-in/link"
    assert "caller" not in fourth
    text = log.getvalue()
    assert [word for word in ("secret", key, session) if word in text] == []


async def test_the_token_of_a_question_link_is_in_no_line_and_no_number(
    log: Log, client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "ada")
    question = await ctx.desk.scoped(workspace).post("Which?")
    ada, day = await ctx.directory.find_person(workspace, "ada"), timedelta(days=1)
    assert ada is not None
    made = await issue_question_link(ctx, question, ada, channel="email", by="root", lasts=day)
    assert made is not None
    token = made.url.rpartition("/")[2]
    for good in (token, token[:-1]):
        await client.get(f"/q/{good}/frame")
        await client.get(f"/q/{good}/status")
        await client.post(f"/q/{good}", data={"v": "secret-answer"}, headers=ORIGIN)
    await client.get(f"/q/{token}/nowhere")
    numbers = await client.get("/metrics")
    first, *_, last = log.requests
    assert (first["route"], first["caller"]) == ("/q/{token}/frame", "link:ada")
    assert (first["workspace"], first["question"]) == (workspace, question.id)
    assert "route" not in last
    for text in (log.getvalue(), numbers.text):
        assert [word for word in (token[-43:-1], "secret") if word in text] == []


@pytest.mark.parametrize("given", ["", "a" * 65, "with space", "x\x1b[2Jy", "ü"])
async def test_a_request_id_that_is_not_sane_is_replaced(
    log: Log, client: httpx2.AsyncClient, given: str
) -> None:
    response = await client.get("/v1/me", headers={b"x-request-id": given.encode()})
    made = response.headers["x-request-id"]
    assert made != given
    assert len(made) == 32
    assert log.requests[0]["request_id"] == made


async def test_a_failure_is_logged_once_with_its_request(
    log: Log, app: FastAPI, client: httpx2.AsyncClient
) -> None:
    async def fail() -> None:
        secret = "hra_secret"  # noqa: S105 -- local variables must not be shown
        raise RuntimeError(f"unexpected after {len(secret)}")

    app.add_api_route("/fail", fail)
    response = await client.get("/fail", headers={"x-request-id": "failing"})
    assert response.status_code == 500
    assert response.headers["x-request-id"] == "failing"
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.error("Exception in ASGI application\n", exc_info=RuntimeError("unexpected"))
    failure, request = log.lines
    assert failure["level"] == "error"
    assert failure["request_id"] == request["request_id"] == "failing"
    assert "RuntimeError: unexpected after 10" in failure["exception"]
    assert "hra_secret" not in log.getvalue()
    assert (request["status"], request["level"]) == (500, "warning")


async def test_nothing_that_is_logged_can_begin_a_line_or_move_a_cursor(
    console: Log, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    token = await issuer.agent(workspace, EVIL)
    await client.get("/v1/me", headers=bearer(token))
    logging.getLogger("uvicorn.error").warning(
        "Invalid request %s", EVIL, extra={"evil": EVIL, "list": [EVIL]}
    )
    logging.getLogger("handraise").error("trouble", exc_info=ValueError(EVIL))
    text = console.getvalue()
    assert [each for each in text if not each.isprintable() and each != "\n"] == []
    first, second, third, *traceback = text.splitlines()
    assert "GET /v1/me 200" in first
    assert "caller=agent:agent‹U+001B›[2J‹U+000D›‹U+000A›{}" in first
    assert "warning: Invalid request agent‹U+001B›[2J" in second
    assert "error: trouble" in third
    assert any("ValueError" in line for line in traceback)


async def test_json_lines_are_lines_whatever_is_in_them(
    log: Log, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    await client.get("/v1/me", headers=bearer(await issuer.agent(workspace, EVIL)))
    assert log.requests[0]["caller"] == f"agent:{EVIL}"
    assert log.getvalue().isascii()


def test_importing_and_serving_without_the_command_configures_nothing(ctx: ServerContext) -> None:
    assert ctx.settings.log_format is None
    assert not any(
        type(each.formatter).__module__.startswith("handraise") for each in logging.getLogger().handlers
    )
