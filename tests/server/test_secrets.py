"""Secrets that are planted in questions, answers and credentials, and looked for wherever they must not be."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handraise.server import ServerSettings, create_app
from handraise.server.observability import Traces
from handraise.server.observability.logs import configure_logs
from handraise.testing import promise
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.every_channel import MAIL_KEY, WEBHOOK_KEY, Everything, open_everything, whsec

WORKSPACE = "default"
ASKED = ("prompt", "label", "context", "argument", "state")
SAID = ("answer", "attempt", "reason", "denial", "details")
SENT = ("query", "header", "junk")
"""What comes with requests and is no part of any question."""
KEPT_IN = {"questions", "events", "requests"}
"""Where content is: in the record, its history, and for a day in the response to a request with an idempotency key."""


def canary(name: str) -> str:
    """Something that nobody else writes, and that survives being escaped and folded."""
    return f"canary{name}9d7f"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged here, however little it matters, but for what the stand-ins of others say."""
    names = ("", "uvicorn", "httpx2", "httpcore2", "mail.log")
    before = [(logging.getLogger(name), logging.getLogger(name).level) for name in names]
    handlers, stream = list(logging.getLogger().handlers), io.StringIO()
    configure_logs(ServerSettings(log_format="json", log_level="debug"), stream)
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    try:
        yield stream
    finally:
        logging.captureWarnings(False)
        logging.getLogger().handlers = handlers
        for logger, level in before:
            logger.setLevel(level)


@dataclass
class Life:
    """A server in whose life everything has been said, and what is left of it outside."""

    everything: Everything
    path: Path
    client: httpx2.AsyncClient
    exporter: InMemorySpanExporter
    tokens: dict[str, str] = field(default_factory=dict)

    def dump(self) -> dict[str, str]:
        """The rows of every table, as a dump has them."""
        with closing(sqlite3.connect(self.path)) as look:
            names = [name for (name,) in look.execute("select name from sqlite_master where type = 'table'")]
            return {name: repr(list(look.execute(f'select * from "{name}"'))) for name in names}  # noqa: S608 -- names from the file

    def spans(self) -> str:
        """Every span, as an exporter would send it."""
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())


@pytest.fixture
async def life(tmp_path: Path, log: io.StringIO) -> AsyncIterator[Life]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    path = tmp_path / "questions.db"
    del log  # it hears what is said while this opens, too
    async with open_everything(f"sqlite:///{path}", traces=Traces(provider)) as everything:
        await everything.introduce(WORKSPACE)
        transport = httpx2.ASGITransport(create_app(everything.ctx), raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport, base_url="https://desk.example", verify=False
        ) as client:
            life = Life(everything, path, client, exporter)
            await lived(life)
            yield life
    provider.shutdown()


async def lived(life: Life) -> None:
    """Ask, answer amiss, answer, approve, deny, decline, and send what makes no sense."""
    issuer, client = Issuer(life.everything.ctx.directory), life.client
    agent, ann = await issuer.agent(WORKSPACE, "bot"), await issuer.person(WORKSPACE, "ann")
    life.tokens |= {"agent": agent, "session": ann}

    async def call(who: str, path: str, body: Any, **headers: str) -> httpx2.Response:
        loud = {"x-secret": canary("header"), **bearer(who), **headers}
        return await client.post(f"/v1{path}?q={canary('query')}", json=body, headers=loud)

    async def ask(form: dict[str, Any]) -> str:
        body = {
            "prompt": canary("prompt"),
            "form": form,
            "context": {"x": canary("context")},
            "state": {"x": canary("state")},
            "recipients": ["ann"],
        }
        response = await call(
            agent, "/questions", body, **{"idempotency-key": f"k-{form['kind']}-{len(seen)}"}
        )
        assert response.status_code == 201, response.text
        seen.append(response.json()["id"])
        await told(life, seen[-1])
        return seen[-1]

    seen: list[str] = []
    options = [{"id": "a", "label": canary("label")}, {"id": "b", "label": "B"}]
    choice = await ask({"kind": "choice", "options": options, "allow_other": True})
    assert (await call(ann, f"/questions/{choice}/answer", {"value": [canary("attempt")]})).status_code == 422
    said = {"value": {"other": canary("answer")}, "details": {"x": canary("details")}}
    assert (await call(ann, f"/questions/{choice}/answer", said)).status_code == 200
    assert (await call(ann, f"/questions/{choice}/answer", said)).status_code == 409
    pay = {"kind": "approval", "action": {"tool": "pay", "arguments": {"x": canary("argument")}}}
    denial = {"value": {"decision": "deny", "reason": canary("denial")}}
    assert (await call(ann, f"/questions/{await ask(pay)}/answer", denial)).status_code == 200
    declined = await ask({"kind": "confirm"})
    assert (
        await call(ann, f"/questions/{declined}/decline", {"reason": canary("reason")})
    ).status_code == 200
    for body in ({"prompt": 7, canary("junk"): canary("junk")}, [canary("junk")], canary("junk")):
        assert (await call(agent, "/questions", body)).status_code == 422
    page = await client.get(
        f"/questions/{choice}?q={canary('query')}", headers={"cookie": f"__Host-handraise={ann}"}
    )
    assert canary("prompt") in page.text
    assert canary("state") not in page.text
    made = await call(ann, f"/questions/{await ask({'kind': 'confirm'})}/links", {"channel": "email"})
    life.tokens["link"] = made.json()["url"].rpartition("/")[2]
    assert (await client.get(f"/q/{life.tokens['link']}")).status_code == 200
    assert (
        await client.post(f"/q/{life.tokens['link']}", data={"v": "yes"}, headers=ORIGIN)
    ).status_code < 500
    for question_id in seen:
        await told(life, question_id)


async def told(life: Life, question_id: str) -> None:
    """Wait until the other ends were told of a question, and how it ended if it has."""
    question = await life.everything.ctx.desk.scoped(WORKSPACE).get(question_id)
    on_the_way = {"queued"} if question.outcome is None else {"queued", "sent"}
    async with asyncio.timeout(30):
        while not (found := await life.everything.ctx.outbox.deliveries(question.ref)) or on_the_way & {
            each.status.value for each in found
        }:
            await asyncio.sleep(0.01)


def secrets(life: Life) -> dict[str, str]:
    """What lets somebody in, or sign something."""
    return {
        **{name: token[-43:] for name, token in life.tokens.items()},
        "webhook": whsec(WEBHOOK_KEY),
        "email": whsec(MAIL_KEY),
    }


@promise("P5")
@pytest.mark.timeout(120)
async def test_what_is_asked_and_answered_is_nowhere_but_in_its_own_rows(
    life: Life, log: io.StringIO
) -> None:
    contents = {name: canary(name) for name in (*ASKED, *SAID, *SENT)}
    metrics = (await life.client.get("/metrics")).text
    spans = life.spans()
    assert (len(spans) > 1_000, len(metrics) > 1_000, len(log.getvalue()) > 1_000) == (True, True, True)
    for place, text in {"log": log.getvalue(), "metrics": metrics, "spans": spans}.items():
        found = [name for name, each in (contents | secrets(life)).items() if each in text]
        assert found == [], place
    dump = life.dump()
    for name in (*ASKED, *SAID):
        assert {table for table, rows in dump.items() if canary(name) in rows} <= KEPT_IN, name
        assert canary(name) in dump["questions"] + dump["events"]
    for name in SENT:
        assert {table for table, rows in dump.items() if canary(name) in rows} == set(), name


async def test_no_dump_has_what_lets_somebody_in(life: Life) -> None:
    """Of a token only its digest is kept. An operator's own secret for a webhook is kept with its address."""
    for name, secret in secrets(life).items():
        tables = {table for table, rows in life.dump().items() if secret in rows}
        assert tables <= ({"addresses", "deliveries"} if name == "webhook" else set()), name


async def test_what_an_asker_keeps_for_itself_is_told_to_nobody(life: Life) -> None:
    came = life.everything.told()
    assert {name for name, text in came.items() if canary("prompt") in text} >= {"slack", "teams", "webhook"}
    for name, text in came.items():
        for what in ("state", "details", "attempt", *SENT):
            assert canary(what) not in text, (name, what)
        for what, secret in secrets(life).items():
            assert secret not in text, (name, what)


async def test_nothing_that_hides_a_secret_shows_it(life: Life) -> None:
    settings = life.everything.ctx.settings
    shown = f"{settings!r} {settings} {json.dumps(settings.model_dump(mode='json'))}"
    for name, value in settings.model_dump().items():
        if hasattr(value, "get_secret_value"):
            assert value.get_secret_value() not in shown, name
    assert re.search(r"\*{4,}", shown)
