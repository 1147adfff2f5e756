"""Spans of statements and deliveries: below what caused them, and without what was said."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id, use_span

from handraise.model.deliveries import Address
from handraise.model.errors import StoreUnavailable
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.server.observability import Traces
from support.issuer import Issuer
from support.webhook_receiver import Receiver, receiving
from tests.server.conftest import bearer

ASKER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "whsec_" + base64.b64encode(b"the key of a webhook, 32 bytes..").decode()

pytestmark = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest.fixture
async def ctx(store: str, exporter: InMemorySpanExporter) -> AsyncIterator[ServerContext]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    settings = ServerSettings(
        url=store, webhooks=True, webhook_allow_private=["127.0.0.0/8"], poll_interval=0.1
    )
    async with open_server(settings, traces=Traces(provider)) as ctx:
        yield ctx
    provider.shutdown()


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else format_span_id(span.parent.span_id)


async def test_statements_and_deliveries_have_spans_without_what_was_said(
    ctx: ServerContext,
    client: httpx2.AsyncClient,
    issuer: Issuer,
    workspace: str,
    exporter: InMemorySpanExporter,
    receiver: Receiver,
) -> None:
    agent, person = await issuer.agent(workspace, "bot"), await issuer.person(workspace, "ada")
    to = {"url": f"{receiver.url}&secret-place", "secret": SECRET}
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient="ada", channel="webhook", id="main", to=to)
    )
    asked = await client.post(
        "/v1/questions",
        json={"prompt": "secret-prompt", "recipients": ["ada"]},
        headers=bearer(agent) | {"traceparent": ASKER},
    )
    question = asked.json()["id"]
    async with asyncio.timeout(30):
        while not (delivering := [each for each in exporter.get_finished_spans() if "deliver" in each.name]):
            await asyncio.sleep(0.01)
    answered = await client.post(
        f"/v1/questions/{question}/answer", json={"value": "secret-answer"}, headers=bearer(person)
    )
    assert answered.status_code == 200
    spans = exporter.get_finished_spans()
    answering = next(each for each in spans if each.name.endswith("/answer"))
    (locking,) = [each for each in spans if each.name == "postgresql lock"]
    assert locking.attributes == {"db.system.name": "postgresql", "db.query.summary": "lock"}
    assert answering.context is not None
    assert parent_of(locking) == format_span_id(answering.context.span_id)
    # An attempt is a trace of its own, with a link to the asker's.
    delivery = delivering[0]
    assert delivery.attributes is not None
    assert delivery.context is not None
    assert (delivery.name, parent_of(delivery)) == ("deliver webhook", None)
    assert delivery.attributes["handraise.question.id"] == question
    assert delivery.attributes["handraise.delivery.status"] == "sent"
    assert format_trace_id(delivery.links[0].context.trace_id) in ASKER
    below = {each.name for each in spans if parent_of(each) == format_span_id(delivery.context.span_id)}
    assert "postgresql addresses" in below
    # What the server does at intervals has no spans: they would be most of all.
    assert {each.name for each in spans if each.parent is None} <= {"deliver webhook", answering.name}
    said = "".join(each.to_json() for each in spans)
    assert [word for word in ("secret", SECRET, agent, person) if word in said] == []


def test_the_span_of_a_statement_that_fails_says_nothing_of_its_values(
    exporter: InMemorySpanExporter, store: str
) -> None:
    del store
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    request = traces.start_span("POST", {})
    with use_span(request), pytest.raises(StoreUnavailable), traces.statement_span("settle"):
        raise StoreUnavailable("(answer)=(secret) already exists")
    request.end()
    provider.shutdown()
    failed = exporter.get_finished_spans()[0]
    assert failed.attributes is not None
    assert (failed.status.status_code, failed.attributes["error.type"]) == (
        StatusCode.ERROR,
        "StoreUnavailable",
    )
    assert "secret" not in failed.to_json()
