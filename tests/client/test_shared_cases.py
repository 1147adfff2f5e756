"""The Python client does what clients/cases.json says, as the TypeScript client does: clients/typescript/test."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import handraise
from handraise import Desk, Responder, errors, open_desk
from handraise.client.http_transport import HttpTransport
from handraise.client.remote_desk import RemoteDesk, RemoteSession, open_remote
from handraise.desk.ids import uuid7_ids
from handraise.model.answer_types import form_from
from handraise.model.drafting import Limits
from handraise.model.durations import seconds_of
from handraise.model.forms import FORM, Choice, Open
from handraise.model.json_values import canonical_json, digest
from handraise.model.problems import HandraiseError, InvalidQuestion
from handraise.model.schema_reader import simple_form_from_schema
from handraise.model.validation import check_answer
from handraise.server import ServerSettings, create_app, open_server
from handraise.wire.problem_documents import _ERRORS, MEDIA_TYPE, ProblemDocument, error_of
from handraise.wire.requests import PostQuestion
from support.http_server import listening
from support.issuer import Issuer

CASES = json.loads((Path(__file__).parents[2] / "clients" / "cases.json").read_text(encoding="utf-8"))
QUESTION = "01a1dded-01b0-7a52-879e-fbf5034a9f20"
TEMPORARY = (errors.StoreUnavailable, errors.RequestConflict, errors.TooManyRequests)


def class_of(name: str) -> type[HandraiseError]:
    found: type[HandraiseError] = getattr(errors, name, None) or getattr(handraise, name)
    return found


@pytest.mark.parametrize("case", CASES["canonical"], ids=lambda case: case["text"][:30])
def test_canonical_text_and_digest(case: dict[str, Any]) -> None:
    assert canonical_json(case["value"]) == case["text"]
    assert digest(case["value"]) == case["digest"]


@pytest.mark.parametrize("value", CASES["not_canonical"], ids=ascii)
def test_half_of_a_surrogate_pair_has_no_digest(value: Any) -> None:
    with pytest.raises(UnicodeEncodeError):
        digest(value)


def test_spans() -> None:
    assert {text: seconds_of(text) for text in CASES["spans"]} == CASES["spans"]


@pytest.mark.parametrize("text", CASES["not_spans"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="is not a span"):
        seconds_of(text)


@pytest.mark.parametrize("case", CASES["errors"], ids=lambda case: case["document"]["code"])
def test_an_error_by_its_document(case: dict[str, Any]) -> None:
    document = ProblemDocument.model_validate(case["document"])
    error = error_of(document, subject=QUESTION, workspace="default", actor="agent")
    assert type(error) is class_of(case["error"])
    assert isinstance(error, TEMPORARY) == case["tried_again"]


def test_both_clients_know_the_same_codes() -> None:
    assert sorted(_ERRORS.keys() - {"desk_closed"}) == CASES["error_codes"]  # that one is as an unknown one


@asynccontextmanager
async def scripted(responses: list[dict[str, Any]]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that gives these responses in turn; also the heads of the requests that came."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response_of(responses[min(len(came), len(responses)) - 1]))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", came


def response_of(case: dict[str, Any]) -> bytes:
    if "status" not in case:
        return b""
    kind, text = "text/html", case.get("text", "")
    if "document" in case:
        kind, text = MEDIA_TYPE, json.dumps(case["document"])
    elif "body" in case:
        kind, text = "application/json", json.dumps(case["body"])
    length = len(text) + (10 if case.get("cut") else 0)
    location = f"location: {case['location']}\r\n" if "location" in case else ""
    head = f"HTTP/1.1 {case['status']} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{location}"
    return f"{head}connection: close\r\n\r\n{text}".encode()


@pytest.mark.parametrize("case", CASES["retries"], ids=lambda case: case["name"])
async def test_what_is_tried_again(case: dict[str, Any]) -> None:
    async with scripted(case["responses"]) as (address, came):
        began = time.monotonic()
        error: HandraiseError | None = None
        try:
            async with asyncio.timeout(20):
                await call(case.get("verb", "call"), address)
        except HandraiseError as raised:
            error = raised
        lasted = time.monotonic() - began
    assert (None if error is None else type(error).__name__) == case["error"]
    assert len(came) == case["requests"]
    keys = {
        line for head in came for line in head.splitlines() if line.lower().startswith(b"idempotency-key")
    }
    assert len(keys) == (0 if case.get("verb") == "open" else 1)
    assert lasted >= case.get("at_least", 0)


async def call(verb: str, address: str) -> None:
    if verb == "open":
        async with open_remote(address, credentials="hra_x", new_id=uuid7_ids()):
            return
    transport = HttpTransport([address])
    try:
        if verb == "call":
            await transport.call("POST", f"/v1/questions/{QUESTION}/apply-grant", token="x", subject=QUESTION)  # noqa: S106 -- no secret
        else:
            await desk_on(transport).consume_approval(QUESTION)
    finally:
        await transport.close()


class AnyToken:
    """Credentials for a server that looks at none."""

    async def agent(self, workspace: str, asker: str) -> str:
        return f"{workspace} {asker}"

    async def person(self, workspace: str, responder: Responder) -> str:
        return f"{workspace} {responder.id}"

    async def reader(self, workspace: str, asker: str) -> str:
        return f"{workspace} {asker}"


def desk_on(transport: HttpTransport) -> RemoteDesk:
    session = RemoteSession(transport, AnyToken(), bus=None, poll_interval=5.0)
    return RemoteDesk(session, workspace="default", asker="agent", new_id=uuid7_ids(), limits=Limits())


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    settings = ServerSettings(url="memory:", check_recipients=False)
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"http://127.0.0.1:{door.getsockname()[1]}"
        async with (
            open_server(settings) as ctx,
            listening(create_app(ctx), door),
            open_desk(address, credentials=Issuer(ctx.directory)) as desk,
        ):
            yield desk


async def test_what_a_key_finds(desk: Desk) -> None:
    for case in CASES["keys"]:
        key = {} if "key" in case else {"key": case["name"]}
        first = await desk.post("Which?", **key, **options_of(case["first"]))
        if "error" in case:
            with pytest.raises(class_of(case["error"])):
                await desk.post("Which?", **key, **options_of(case["again"]))
        else:
            again = await desk.post("Which?", **key, **options_of(case["again"]))
            assert (again.id == first.id) == case["same"], case["name"]


def options_of(options: dict[str, Any]) -> Any:
    """The options as `post` takes them."""
    return {**options, "form": FORM.validate_python(options["form"])} if "form" in options else options


@pytest.mark.parametrize("case", CASES["forms"], ids=lambda case: json.dumps(case["schema"])[:40])
def test_the_form_of_a_schema(case: dict[str, Any]) -> None:
    if case["form"] is None:
        with pytest.raises(InvalidQuestion):
            simple_form_from_schema(case["schema"])
    else:
        assert simple_form_from_schema(case["schema"]) == FORM.validate_python(case["form"])


@pytest.mark.parametrize("case", CASES["answers"], ids=lambda case: json.dumps(case["answer"])[:40])
def test_the_value_of_an_answer(case: dict[str, Any]) -> None:
    asked = PostQuestion.model_validate({"prompt": "What?", **case["options"]})
    form = Choice.of(*asked.choices) if asked.choices else form_from(asked.form or Open())
    if "error" in case:
        with pytest.raises(class_of(case["error"])):
            check_answer(form, case["answer"])
    else:
        assert check_answer(form, case["answer"]) == case["value"]
