"""Rotas: who is on duty by a calendar is notified, and the whole group if that cannot be known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from handraise.model.group_calendars import GroupCalendar, WorkspaceCalendars
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.rota_refresh import EVERY, refresh_rotas, warnings_of
from handraise.testing import ManualClock
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer

Headers = dict[str, str]


@pytest.fixture
def store() -> str:
    return "memory:"


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"webhook_allow_private": ("127.0.0.0/8",)}


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
async def oncall(ctx: ServerContext, workspace: str) -> None:
    for name in ("ana", "bo", "cy"):
        email = f"{name}@example.org"
        await ctx.directory.put_person(workspace, name, name=f"{name} Doe", email=email, role=Role.MEMBER)
    await ctx.directory.put_group(workspace, "oncall", ["ana", "bo"])


class CalendarServer:
    """A real HTTP server that answers with what it is given."""

    def __init__(self) -> None:
        self.body, self.status, self.calls = b"", 200, 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.calls += 1
        head = f"HTTP/1.1 {self.status} OK\r\ncontent-length: {len(self.body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + self.body)
        writer.close()


@pytest.fixture
async def served() -> AsyncIterator[tuple[CalendarServer, str]]:
    calendar = CalendarServer()
    server = await asyncio.start_server(calendar.answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield calendar, f"http://127.0.0.1:{port}/secret-token/rota.ics"


def rota(clock: ManualClock, *people: str) -> str:
    """A calendar in which these people are on duty now, one as the attendee and one in the title."""
    day = f"{clock.now():%Y%m%d}"
    events = "".join(
        f"BEGIN:VEVENT\r\nUID:{number}\r\nDTSTART;VALUE=DATE:{day}\r\n{each}\r\nEND:VEVENT\r\n"
        for number, each in enumerate(people)
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{events}END:VCALENDAR\r\n"


@pytest.mark.usefixtures("oncall")
@pytest.mark.parametrize(
    ("event", "on_duty"),
    [
        ("ATTENDEE:mailto:ANA@example.org", ["ana"]),
        ("ATTENDEE:mailto:bo", ["bo"]),
        ("ATTENDEE:mailto:stranger@example.org\r\nSUMMARY:Ana Doe", ["ana"]),
        ("SUMMARY:bo@example.org", ["bo"]),
        ("SUMMARY:cy", []),
        ("SUMMARY:", []),
    ],
)
async def test_the_attendee_or_else_the_title_says_who_is_on_duty(
    client: httpx2.AsyncClient, admin: Headers, clock: ManualClock, event: str, on_duty: list[str]
) -> None:
    put = await client.put("/v1/groups/oncall/rota", json={"text": rota(clock, event)}, headers=admin)
    assert put.status_code == 200
    assert (put.json()["source"], put.json()["problem"], put.json()["on_duty"]) == ("file", None, on_duty)
    assert (await client.get("/v1/groups/oncall/rota", headers=admin)).json() == put.json()


@pytest.mark.usefixtures("oncall")
@promise("P17")
async def test_an_address_is_fetched_every_15_minutes_at_most_and_stays_secret(
    client: httpx2.AsyncClient,
    admin: Headers,
    ctx: ServerContext,
    clock: ManualClock,
    workspace: str,
    served: tuple[CalendarServer, str],
) -> None:
    calendar, address = served
    calendar.body = rota(clock, "SUMMARY:ana").encode()
    put = await client.put("/v1/groups/oncall/rota", json={"address": address}, headers=admin)
    assert put.json()["on_duty"] == ["ana"]
    assert "secret-token" not in put.text
    calendar.body = rota(clock, "SUMMARY:bo").encode()
    clock.advance(EVERY - timedelta(seconds=1))
    assert await refresh_rotas(ctx.directory, ctx.settings) == 0
    clock.advance(timedelta(seconds=1))
    done = await asyncio.gather(*(refresh_rotas(ctx.directory, ctx.settings) for _ in range(5)))
    assert (sum(done), calendar.calls) == (1, 2)
    got = await client.get("/v1/groups/oncall/rota", headers=admin)
    assert got.json()["on_duty"] == ["bo"]
    gone = await client.delete("/v1/groups/oncall/rota", headers=admin)
    assert gone.json()["source"] is None
    events = await ctx.engine.store.workspace_events(workspace, after=None, limit=50)
    found = [each.details for each in events if each.kind == "rota.changed"]
    assert found == [
        {"group": "oncall", "from": None, "to": "127.0.0.1"},
        {"group": "oncall", "from": "127.0.0.1", "to": None},
    ]


@pytest.mark.usefixtures("oncall")
@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, b"", "its server answered with 404"),
        (302, b"", "its server answered with 302"),
        (200, b"<html>", "not an iCalendar file"),
        (200, b"x" * 1_000_001, "longer than 1 MB"),
        (200, b"\xff\x00\xfe", "not an iCalendar file"),
    ],
)
async def test_what_cannot_be_read_is_said_to_administrators(
    client: httpx2.AsyncClient,
    admin: Headers,
    ctx: ServerContext,
    workspace: str,
    served: tuple[CalendarServer, str],
    status: int,
    body: bytes,
    problem: str,
) -> None:
    calendar, address = served
    calendar.status, calendar.body = status, body
    put = await client.put("/v1/groups/oncall/rota", json={"address": address}, headers=admin)
    assert problem in put.json()["problem"]
    [(group, said)] = warnings_of(await ctx.directory.calendars(workspace))
    assert (group, problem in (said or "")) == ("oncall", True)
    page = await client.get("/", headers={"cookie": f"handraise={admin['authorization'].split()[1]}"})
    assert "The calendar of oncall cannot be used" in page.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"address": "https://a.example/x.ics", "text": "BEGIN:VCALENDAR"},
        {"address": "http://a.example/rota.ics\n"},
        {"address": "http://169.254.169.254/latest"},
        {"address": "https://10.0.0.1/rota.ics"},
        {"address": "file:///etc/passwd"},
        {"address": "ftp://a.example/rota.ics"},
        {"address": "https://user:secret@a.example/rota.ics"},
        {"text": "x" * 1_000_001},
        {"text": "BEGIN\x00"},
    ],
)
async def test_addresses_of_internal_networks_and_nonsense_are_refused(
    client: httpx2.AsyncClient, admin: Headers, body: dict[str, str]
) -> None:
    refused = await client.put("/v1/groups/oncall/rota", json=body, headers=admin)
    assert refused.status_code in (413, 422)
    assert (await client.get("/v1/groups/oncall/rota", headers=admin)).json()["source"] is None


@promise("P8")
async def test_only_administrators_see_and_set_rotas(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    member = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    for who, status in ((member, 403), (agent, 403), ({}, 401)):
        path = "/v1/groups/oncall/rota"
        assert (await client.get(path, headers=who)).status_code == status
        assert (await client.put(path, json={"text": "x"}, headers=who)).status_code == status
        assert (await client.delete(path, headers=who)).status_code == status


def test_that_nobody_is_on_duty_is_a_warning_once_the_calendar_was_read() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    new = GroupCalendar(workspace="w", group_name="new", rota="file")
    read = GroupCalendar(workspace="w", group_name="read", rota="file", tried_at=now)
    none = GroupCalendar(workspace="w", group_name="none")
    calendars = WorkspaceCalendars(now, {each.group_name: each for each in (new, read, none)})
    assert warnings_of(calendars) == [("read", None)]
