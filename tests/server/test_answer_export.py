"""Answers as data over HTTP: all that is settled in a workspace, for readers and administrators, as one stream."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handraise import Approval
from handraise.desk import answer_pages
from handraise.desk.local_desk import LocalDesk
from handraise.model.errors import StoreUnavailable
from handraise.model.identities import Role
from handraise.model.visible import visible
from handraise.ports import SettledRows
from handraise.presentation.csv_cells import safe_cell
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_reader_key
from handraise.testing import ManualClock
from handraise.wire.answer_records import FIELDS, AnswerRecord, csv_lines
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

Headers = dict[str, str]
HOSTILE = ("=1+1", "+1", "-1", "@SUM(1)", "\t=1", 'a";=HYPERLINK("x")', "\x1b[2J", "\u202e")


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def reader(ctx: ServerContext, workspace: str) -> Headers:
    return bearer((await issue_reader_key(ctx, workspace, "warehouse", by="root")).key)


def records(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


@on_every_store
async def test_a_reader_exports_what_is_settled_and_nothing_that_waits(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers, clock: ManualClock
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    choice = await desk.post("Which?", choices=["a", "b"], state={"secret": 1}, conversation="c", trace=trace)
    await desk.answer(choice.id, "b", by="ana")
    form = Approval.of("pay", {"amount": 7}, editable=["amount"], risk="high")
    approval = await desk.post("Pay?", form=form, tool_call="call-1")
    clock.advance(timedelta(minutes=1))
    edited = {"decision": "approve", "arguments": {"amount": 5}, "reason": "less"}
    await desk.answer(approval.id, edited, by="ana")
    await desk.post("Still waiting", key="k")
    await desk.scoped("elsewhere").withdraw((await desk.scoped("elsewhere").post("Not here")).id)
    response = await client.get("/v1/answers", headers=reader)
    assert response.headers["content-type"] == "application/jsonl"
    first, second = records(response)
    assert list(first) == list(second) == list(FIELDS)
    assert first | {"asked_at": None, "settled_at": None} == dict.fromkeys(FIELDS) | {
        "id": choice.id,
        "agent": "bot",
        "conversation": "c",
        "kind": "choice",
        "prompt": "Which?",
        "options": [{"id": "a", "label": "a"}, {"id": "b", "label": "b"}],
        "recipients": [],
        "status": "answered",
        "answer": "b",
        "decided_by": "ana",
        "source": "person",
        "seconds": 0.0,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
    }
    assert {name: second[name] for name in ("kind", "tool", "tool_call", "arguments", "risk")} == {
        "kind": "approval",
        "tool": "pay",
        "tool_call": "call-1",
        "arguments": {"amount": 7},
        "risk": "high",
    }
    assert (second["decision"], second["edited"], second["reason"]) == ("approved", True, "less")
    assert (second["answer"]["arguments"], second["seconds"]) == ({"amount": 5}, 60.0)
    since = second["settled_at"]
    assert records(await client.get("/v1/answers", params={"since": since}, headers=reader)) == [second]
    assert records(await client.get("/v1/answers", params={"until": since}, headers=reader)) == [first]


async def test_no_cell_of_the_csv_is_a_formula_or_moves_a_cursor(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers
) -> None:
    for text in HOSTILE:
        question = await desk.post(f"{text}", conversation=text if text.isprintable() else "c")
        await desk.answer(question.id, f"{text}", by="ana")
        await desk.withdraw((await desk.post("Gone?")).id, reason=text)
    response = await client.get("/v1/answers", params={"format": "csv"}, headers=reader)
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert not {"\x1b", "\u202e"} & set(response.text)
    heads, *rows = csv.reader(io.StringIO(response.text))
    assert heads == list(FIELDS)
    assert len(rows) == 2 * len(HOSTILE)
    cells = [cell for row in rows for cell in row]
    assert [cell for cell in cells if cell.lstrip(" ")[:1] in set("=+-@\t\r\n")] == []
    assert "'=1+1" in cells
    assert {row[heads.index("prompt")] for row in rows} >= {"'=1+1", "'+1", "'-1", "'@SUM(1)"}


@given(st.text() | st.text(alphabet="a,;'\"\r\n =+"))
def test_whatever_the_texts_are_a_line_of_the_csv_has_its_cells(text: str) -> None:
    record: AnswerRecord = dict.fromkeys(FIELDS) | {"prompt": text, "agent": text, "answer": {"said": text}}
    [row] = csv.reader(io.StringIO(csv_lines([record]).decode(), newline=""))
    cells = dict(zip(FIELDS, row, strict=True))
    assert cells["prompt"] == cells["agent"] == safe_cell(visible(text))
    assert cells["answer"] == safe_cell(
        visible(json.dumps({"said": text}, ensure_ascii=False, separators=(",", ":")))
    )
    assert set(cells.values()) == {"", cells["prompt"], cells["answer"]}


async def test_an_empty_export_is_a_file_too(client: httpx2.AsyncClient, reader: Headers) -> None:
    assert (await client.get("/v1/answers", headers=reader)).text == ""
    empty = await client.get("/v1/answers", params={"format": "csv"}, headers=reader)
    assert empty.text == ",".join(FIELDS) + "\r\n"


async def test_nobody_else_exports_and_what_cannot_be_is_refused(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers, issuer: Issuer, workspace: str
) -> None:
    await desk.withdraw((await desk.post("Gone?")).id)
    admin = bearer(await issuer.person(workspace, "root", role=Role.ADMIN))
    assert len(records(await client.get("/v1/answers", headers=admin))) == 1
    for other in (
        await issuer.person(workspace, "ana", role=Role.MEMBER),
        await issuer.agent(workspace, "bot"),
    ):
        refused = await client.get("/v1/answers", headers=bearer(other))
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    for query in ({"format": "xml"}, {"since": "yesterday"}, {"until": "0001-01-01T00:00:00+14:00"}):
        assert (await client.get("/v1/answers", params=query, headers=reader)).status_code == 422, query


@pytest.mark.parametrize("settings", [{"stream_limit": 1}])
async def test_an_export_counts_as_an_open_stream_until_its_end(
    client: httpx2.AsyncClient, desk: LocalDesk, reader: Headers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is under way, a credential that may have one stream gets no other."""
    await desk.withdraw((await desk.post("Gone?")).id)
    within: list[int] = []

    async def looking(*given: Any, **named: Any) -> Any:
        async for page in pages(*given, **named):
            yield page
            monkeypatch.undo()
            within.append((await client.get("/v1/answers", headers=reader)).status_code)

    pages = answer_pages.answer_pages
    monkeypatch.setattr("handraise.server.api.answer_routes.answer_pages", looking)
    assert (await client.get("/v1/answers", headers=reader)).status_code == 200
    assert within == [429]
    assert (await client.get("/v1/answers", headers=reader)).status_code == 200


async def test_a_store_that_fails_at_once_is_a_problem_and_later_the_stream_breaks_off(
    client: httpx2.AsyncClient,
    desk: LocalDesk,
    reader: Headers,
    ctx: ServerContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(3):
        await desk.withdraw((await desk.post("Gone?")).id)
    read, works = ctx.store.settled_rows, [0]

    async def stumbling(*given: Any, **named: Any) -> SettledRows:
        if not works[0]:
            raise StoreUnavailable("The store is away.")
        works[0] -= 1
        found: SettledRows = await read(*given, **named)
        return found

    monkeypatch.setattr(answer_pages, "_EVENTS", 2)
    monkeypatch.setattr(ctx.store, "settled_rows", stumbling)
    assert (await client.get("/v1/answers", headers=reader)).status_code == 503
    works[0] = 2
    response = await client.get("/v1/answers", headers=reader)
    assert (
        len(response.text.splitlines()) < 3
    )  # over a socket, such a response has no end: tests/cli/test_export.py
