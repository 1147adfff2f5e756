"""An agent cannot ask somebody who is not there, at a server as anywhere else."""

from __future__ import annotations

import uuid

import httpx2
import pytest

from handraise.model.identities import Role
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

ASKED = {"prompt": "Ship it?"}


@pytest.fixture
def lab() -> str:
    return f"lab-{uuid.uuid4().hex}"


@on_every_store
@pytest.mark.parametrize("settings", [{"check_recipients": True}])
async def test_a_server_refuses_recipients_that_nobody_has_added(
    client: httpx2.AsyncClient, issuer: Issuer, lab: str
) -> None:
    await issuer.person(lab, "ana", role=Role.ADMIN)
    headers = bearer(await issuer.agent(lab, "robot"))

    async def post(**said: object) -> httpx2.Response:
        return await client.post("/v1/questions", json=ASKED | said, headers=headers)

    refused = await post(recipients=["anna"])
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_question")
    told = "'anna': nobody here has this name; did you mean 'ana'?"
    assert refused.json()["problems"] == [{"path": "recipients[0]", "message": told}]
    escalated = await post(recipients=["ana"], timeline={"escalate": [{"after": 60, "to": ["group:ops"]}]})
    assert [each["path"] for each in escalated.json()["problems"]] == ["timeline.escalate"]
    assert (await post(recipients=["ana"])).status_code == 201
    assert (await post(recipients=["anna"], check_recipients=False)).status_code == 201


@pytest.mark.parametrize(
    "settings", [{"check_recipients": True, "oidc_join": ["Example.com"], "oidc_workspace": "office"}]
)
async def test_whoever_may_join_by_signing_in_can_be_asked_before_they_have(
    client: httpx2.AsyncClient, issuer: Issuer
) -> None:
    asked = {}
    for workspace in ("office", "elsewhere"):
        await issuer.person(workspace, "ana", role=Role.ADMIN)
        headers = bearer(await issuer.agent(workspace, "robot"))
        for name in ("bob@example.com", "Bob@example.com", "bob@example.org", "example.com"):
            said = await client.post("/v1/questions", json=ASKED | {"recipients": [name]}, headers=headers)
            asked[workspace, name] = said.status_code
    assert [place for place, status in asked.items() if status == 201] == [("office", "bob@example.com")]
