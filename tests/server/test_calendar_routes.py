"""Working hours over HTTP: administrators set them, and timelines count by them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import bearer

Headers = dict[str, str]
HOURS = {"time_zone": "Europe/Berlin", "hours": "Mon-Fri 09:00-17:30", "country": "DE", "subdivision": "BY"}


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@promise("P17")
async def test_hours_are_set_listed_and_removed_and_the_trail_says_by_whom(
    client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
) -> None:
    for path, group in (("/v1/hours", None), ("/v1/groups/ops/hours", "ops")):
        put = await client.put(path, json=HOURS, headers=admin)
        assert (put.status_code, put.json()) == (200, {"group": group, "hours": HOURS})
    listed = (await client.get("/v1/hours", headers=admin)).json()["items"]
    assert [(each["group"], each["hours"]) for each in listed] == [(None, HOURS), ("ops", HOURS)]
    for _ in range(2):
        gone = await client.delete("/v1/groups/ops/hours", headers=admin)
        assert (gone.status_code, gone.json()) == (200, {"group": "ops", "hours": None})
    await client.delete("/v1/hours", headers=admin)
    assert (await client.get("/v1/hours", headers=admin)).json() == {"items": []}
    events = await ctx.engine.store.workspace_events(workspace, after=None, limit=50)
    found = [(each.by, each.details) for each in events if each.kind == "hours.changed"]
    assert found == [
        ("boss", {"group": None, "from": None, "to": HOURS}),
        ("boss", {"group": "ops", "from": None, "to": HOURS}),
        ("boss", {"group": "ops", "from": HOURS, "to": None}),
        ("boss", {"group": None, "from": HOURS, "to": None}),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"time_zone": "Berlin"},
        {"time_zone": "/etc/passwd"},
        {"hours": "always"},
        {"hours": "Mon 09:00-17:00\x00"},
        {"country": "XX"},
        {"country": "de"},
        {"country": None},
        {"subdivision": "XYZ"},
        {"days": 5},
    ],
)
async def test_hours_that_nobody_can_keep_are_refused(
    client: httpx2.AsyncClient, admin: Headers, change: dict[str, Any]
) -> None:
    assert (await client.put("/v1/hours", json=HOURS | change, headers=admin)).status_code == 422
    assert (await client.get("/v1/hours", headers=admin)).json() == {"items": []}


async def test_a_group_needs_a_name(client: httpx2.AsyncClient, admin: Headers) -> None:
    for name in ("%20", "%00"):
        path = f"/v1/groups/{name}/hours"
        assert (await client.put(path, json=HOURS, headers=admin)).status_code == 422


@promise("P8")
async def test_only_administrators_see_and_set_hours(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    member = bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))
    agent = bearer(await issuer.agent(workspace, "bot"))
    for who, status in ((member, 403), (agent, 403), ({}, 401)):
        assert (await client.get("/v1/hours", headers=who)).status_code == status
        for path in ("/v1/hours", "/v1/groups/ops/hours"):
            assert (await client.put(path, json=HOURS, headers=who)).status_code == status
            assert (await client.delete(path, headers=who)).status_code == status


async def test_an_agent_may_write_working_time_and_reads_what_it_came_to(
    client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    body = {"prompt": "Go?", "timeline": {"remind": ["2 working hours"], "expire": "3 working days"}}
    refused = await client.post("/v1/questions", json=body, headers=agent)
    assert refused.status_code == 422
    assert "handraise groups hours" in refused.text
    always = {"time_zone": "UTC", "hours": "Mon-Sun 00:00-24:00"}
    await client.put("/v1/hours", json=always, headers=admin)
    posted = await client.post("/v1/questions", json=body, headers=agent)
    assert posted.status_code == 201
    timeline = posted.json()["timeline"]
    assert (timeline["remind"], timeline["expire"]) == ([7_200], 259_200)
    assert timeline["working"] == {"remind.0": "2 working hours", "expire": "3 working days"}
    for lie in ({"expire": "soon"}, {"expire": "2 working weeks"}):
        wrong = {"prompt": "Go?", "timeline": {"expire": 5, "working": lie}}
        assert (await client.post("/v1/questions", json=wrong, headers=agent)).status_code == 422
    # What the words come to is the server's matter, whatever seconds are beside them.
    sly = {"prompt": "Go?", "timeline": {"expire": 1, "working": {"expire": "1 working hour"}}}
    posted = await client.post("/v1/questions", json=sly, headers=agent)
    assert posted.json()["timeline"]["expire"] == 3_600
