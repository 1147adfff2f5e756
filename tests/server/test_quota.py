"""One agent cannot fill the inboxes of everybody: it may have so many pending questions, and no more."""

from __future__ import annotations

import uuid

import httpx2
import pytest

from handraise.model.identities import Role
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

pytestmark = pytest.mark.parametrize("settings", [{"pending_quota": 2}])


@pytest.fixture
def lab() -> str:
    return f"lab-{uuid.uuid4().hex}"


@on_every_store
async def test_a_question_beyond_the_quota_is_refused_with_the_number_and_what_to_do(
    client: httpx2.AsyncClient, issuer: Issuer, lab: str
) -> None:
    headers = bearer(await issuer.agent(lab, "robot"))
    asked = [
        await client.post("/v1/questions", json={"prompt": "Go?", "key": key}, headers=headers)
        for key in "abcb"
    ]
    assert [each.status_code for each in asked] == [201, 201, 429, 201]
    problem = asked[2].json()
    assert (problem["code"], problem["quota"]) == ("quota_exceeded", 2)
    assert "withdraw" in problem["detail"]
    # It is no matter of time, and whoever would come back by the clock is not told to.
    assert "retry-after" not in asked[2].headers
    other = bearer(await issuer.agent(lab, "other"))
    assert (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=other)).status_code == 201
    withdrawn = await client.post(f"/v1/questions/{asked[0].json()['id']}/withdraw", json={}, headers=headers)
    assert withdrawn.status_code == 200
    again = await client.post("/v1/questions", json={"prompt": "Go?", "key": "c"}, headers=headers)
    assert again.status_code == 201


async def test_an_administrator_withdraws_an_agents_questions_and_nobody_else_does(
    client: httpx2.AsyncClient, issuer: Issuer, lab: str
) -> None:
    agent = bearer(await issuer.agent(lab, "robot"))
    admin = bearer(await issuer.person(lab, "root", role=Role.ADMIN))
    member = bearer(await issuer.person(lab, "ana", role=Role.MEMBER))
    asked = [
        (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=agent)).json()["id"]
        for _ in range(2)
    ]
    everything, one = {"asker": "robot", "reason": "a runaway"}, f"/v1/questions/{asked[0]}/withdraw"
    for headers in (agent, member):
        assert (await client.post("/v1/withdraw", json=everything, headers=headers)).status_code == 403
        taken = await client.post(one, json={"by": "root"}, headers=headers)
        assert taken.status_code == 403, taken.text
    assert (await client.post(one, json={}, headers=member)).status_code == 403
    assert (await client.post(one, json={"by": "ana"}, headers=admin)).status_code == 403
    taken = await client.post(one, json={"reason": "wrong"}, headers=admin)
    assert (taken.json()["outcome"]["by"], taken.json()["outcome"]["reason"]) == ("root", "wrong")
    done = await client.post("/v1/withdraw", json=everything, headers=admin)
    assert done.json() == {"withdrawn": 1}
    outcome = (await client.get(f"/v1/questions/{asked[1]}/outcome", headers=agent)).json()["outcome"]
    assert (outcome["status"], outcome["by"], outcome["reason"]) == ("withdrawn", "root", "a runaway")


async def test_a_refusal_is_not_kept_for_its_idempotency_key(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, lab: str
) -> None:
    headers = bearer(await issuer.agent(lab, "robot"))
    for _ in range(2):
        await client.post("/v1/questions", json={"prompt": "Go?"}, headers=headers)
    once = {**headers, "idempotency-key": "k"}
    assert (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=once)).status_code == 429
    desk = ctx.desk.scoped(lab, asker="robot")
    await desk.withdraw((await desk.list_pending()).items[0].id)
    assert (await client.post("/v1/questions", json={"prompt": "Go?"}, headers=once)).status_code == 201
