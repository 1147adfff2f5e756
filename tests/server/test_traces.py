"""Spans say which question they are about, and an answer's span has a link to the asker's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from handraise import Approval
from handraise.model.forms import form_to_json
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.server.observability import Traces
from support.issuer import Issuer
from tests.server.conftest import bearer

pytestmark = pytest.mark.parametrize("store", ["sqlite"], indirect=True)

ASKER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PERSON = "00-11111111111111111111111111111111-2222222222222222-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def ctx(store: str, exporter: InMemorySpanExporter) -> AsyncIterator[ServerContext]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with open_server(ServerSettings(url=store), traces=Traces(provider)) as ctx:
        yield ctx
    provider.shutdown()


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else format_span_id(span.parent.span_id)


async def test_the_span_of_an_answer_has_a_link_to_the_span_of_the_asker(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, exporter: InMemorySpanExporter
) -> None:
    agent, person = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    asked = await client.post(
        "/v1/questions",
        json={"prompt": "secret-prompt", "conversation": "talk", "tool_call": "call_1"},
        headers=bearer(agent) | {"traceparent": ASKER},
    )
    answered = await client.post(
        f"/v1/questions/{asked.json()['id']}/answer?token=secret-query",
        json={"value": "secret-answer"},
        headers=bearer(person) | {"traceparent": PERSON},
    )
    assert answered.status_code == 200
    asking, answering = exporter.get_finished_spans()
    known = {
        "handraise.question.id": asked.json()["id"],
        "handraise.workspace": workspace,
        "gen_ai.agent.name": "bot",
        "gen_ai.conversation.id": "talk",
        "gen_ai.tool.call.id": "call_1",
        "http.request.method": "POST",
    }
    assert asking.attributes == known | {"http.route": "/v1/questions", "http.response.status_code": 201}
    place = "/v1/questions/{question_id}/answer"
    assert answering.attributes == known | {"http.route": place, "http.response.status_code": 200}
    assert (asking.name, answering.name) == ("POST /v1/questions", f"POST {place}")
    assert {asking.kind, answering.kind} == {SpanKind.SERVER}
    # Each is below its own caller's span, in two traces; the link leads from one to the other.
    assert (parent_of(asking), parent_of(answering)) == ("b7ad6b7169203331", "2222222222222222")
    assert asking.context is not None
    assert answering.context is not None
    assert asking.context.trace_id != answering.context.trace_id
    assert list(asking.links) == []
    (link,) = answering.links
    assert (format_trace_id(link.context.trace_id), format_span_id(link.context.span_id)) == (
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
    )
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans())


async def test_the_span_of_an_approval_names_its_tool_and_nothing_else_of_the_action(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, exporter: InMemorySpanExporter
) -> None:
    agent, person = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    form = form_to_json(Approval.of("refund", {"amount": "secret-amount"}))
    asked = await client.post(
        "/v1/questions",
        json={"prompt": "secret-prompt", "form": json.loads(form), "tool_call": "call_1"},
        headers=bearer(agent),
    )
    place = f"/v1/questions/{asked.json()['id']}"
    await client.post(f"{place}/answer", json={"value": "approve"}, headers=bearer(person))
    used = await client.post(f"{place}/consume", json={}, headers=bearer(agent))
    assert used.status_code == 200
    spans = exporter.get_finished_spans()
    assert len(spans) == 3
    for span in spans:
        found = {name: value for name, value in (span.attributes or {}).items() if name.startswith("gen_ai.")}
        assert found == {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "refund",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.agent.name": "bot",
        }
    assert "secret" not in "".join(span.to_json() for span in spans)


async def test_the_link_is_there_when_another_process_takes_the_answer(
    store: str, ctx: ServerContext, client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    agent, person = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    headers = bearer(agent) | {"traceparent": ASKER}
    asked = await client.post("/v1/questions", json={"prompt": "?"}, headers=headers)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with open_server(ServerSettings(url=store), traces=Traces(provider)) as other:
        assert other is not ctx
        transport = httpx2.ASGITransport(app=create_app(other))
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as elsewhere:
            place = f"/v1/questions/{asked.json()['id']}/answer"
            await elsewhere.post(place, json={"value": "yes"}, headers=bearer(person))
    (answering,) = exporter.get_finished_spans()
    assert [format_span_id(link.context.span_id) for link in answering.links] == ["b7ad6b7169203331"]


async def test_an_asker_who_does_not_trace_is_linked_by_the_request_that_asked(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, exporter: InMemorySpanExporter
) -> None:
    agent, person = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    headers = bearer(agent) | {"traceparent": "nonsense"}
    asked = await client.post("/v1/questions", json={"prompt": "?"}, headers=headers)
    await client.post(f"/v1/questions/{asked.json()['id']}/decline", json={}, headers=bearer(person))
    asking, declining = exporter.get_finished_spans()
    assert [(link.context.trace_id, link.context.span_id) for link in declining.links] == [
        (asking.context.trace_id, asking.context.span_id)
    ]


async def test_a_stream_ends_its_span_when_it_has_begun(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    issuer: Issuer,
    workspace: str,
    exporter: InMemorySpanExporter,
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    async with asyncio.timeout(30):
        stream = asyncio.create_task(client.get("/v1/events", headers=agent))  # read to its end
        while not exporter.get_finished_spans():
            await asyncio.sleep(0.01)
        assert not stream.done()
        ctx.stopping.set()
        assert (await stream).status_code == 200
    assert [span.name for span in exporter.get_finished_spans()] == ["GET /v1/events"]


async def test_about_several_questions_a_span_names_none(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, exporter: InMemorySpanExporter
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    ids = [
        (await client.post("/v1/questions", json={"prompt": "?"}, headers=agent)).json()["id"]
        for _ in range(3)
    ]
    await client.get("/v1/outcomes", params={"id": ids}, headers=agent)
    *_, last = exporter.get_finished_spans()
    assert last.name == "GET /v1/outcomes"
    assert "handraise.question.id" not in (last.attributes or {})


async def test_a_failure_of_ours_is_an_error_and_a_refusal_is_none(
    client: httpx2.AsyncClient, ctx: ServerContext, exporter: InMemorySpanExporter
) -> None:
    await client.get("/v1/me")
    ctx.is_draining = True
    await client.get("/readyz")
    refused, stopping = exporter.get_finished_spans()
    assert (refused.status.status_code, stopping.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
