"""Whoever chose the address by which the provider's account was found could have that account: they are not two voters."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.auth.issuer import issue_admin_token, issue_key, issue_scim_key
from tests.server.oidc.provider import WORKSPACE, Browser

pytestmark = [
    pytest.mark.filterwarnings("ignore:get_jwt_config"),
    pytest.mark.filterwarnings("ignore:authlib.jose module is deprecated"),
]

OPERATOR = "command line (root)"
OTHER_ADDRESS = "boss.private@elsewhere.example"


@pytest.fixture
def settings(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | {"admin_emails": ["boss@example.com"]}


@pytest.fixture
async def boss(browser: Browser) -> Browser:
    """The browser of an administrator whom the operator named."""
    await browser.account("sub-boss", email="boss@example.com", email_verified=True, name="Boss")
    assert (await browser.sign_in("sub-boss")).status_code == 303
    browser.http.headers["origin"] = browser.address
    return browser


@pytest.fixture
async def cfo(other: Browser) -> Browser:
    """The browser of whoever has the address that is given for the chief financial officer."""
    await other.account("sub-cfo", email=OTHER_ADDRESS, email_verified=True, name="CFO")
    other.http.headers["origin"] = other.address
    return other


async def put_cfo(http: httpx2.AsyncClient, **headers: str) -> None:
    body = {"name": "CFO", "email": OTHER_ADDRESS}
    assert (await http.put("/v1/people/cfo", json=body, headers=headers)).status_code == 200


async def approved_by(browser: Browser, ctx: ServerContext, **asked: Any) -> httpx2.Response:
    """What becomes of it if the person in this browser approves a new action."""
    agent = (await issue_key(ctx, WORKSPACE, "payer", by=OPERATOR)).key
    form = Approval.of("wire", {"eur": 1_000_000}, risk="high").model_dump(mode="json")
    body = {"prompt": "Wire it?", "form": form, **asked}
    headers = {"authorization": f"Bearer {agent}"}
    async with httpx2.AsyncClient(base_url=browser.address, timeout=30, headers=headers) as http:
        question = (await http.post("/v1/questions", json=body)).json()["id"]
    return await browser.http.post(f"/v1/questions/{question}/answer", json={"value": "approve"})


async def test_a_person_who_was_added_again_with_another_address_is_no_second_approver(
    boss: Browser, cfo: Browser, ctx: ServerContext
) -> None:
    both = ["cfo", await boss.me()]
    await ctx.directory.put_person(
        WORKSPACE, "cfo", name="CFO", email="cfo@example.com", role=Role.MEMBER, by=OPERATOR
    )
    assert (await boss.http.delete("/v1/people/cfo")).status_code == 204
    await put_cfo(boss.http)
    assert (await cfo.sign_in("sub-cfo")).status_code == 303
    assert (await approved_by(boss, ctx, recipients=both, quorum=2)).status_code == 200
    refused = await approved_by(cfo, ctx, recipients=both, quorum=2)
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert "'boss@example.com' chose the e-mail address" in refused.json()["reason"]
    # Alone they approve what is addressed to them: in a small team, the administrator has added everybody.
    assert (await approved_by(cfo, ctx, recipients=["cfo"])).status_code == 200


async def test_an_address_counts_as_chosen_until_the_account_is_known(
    boss: Browser, cfo: Browser, ctx: ServerContext
) -> None:
    both = ["cfo", await boss.me()]
    await put_cfo(boss.http)
    assert (await cfo.sign_in("sub-cfo")).status_code == 303
    # Somebody else corrects the address; the account stays that of the address before.
    await ctx.directory.put_person(
        WORKSPACE, "cfo", name="CFO", email="cfo@example.com", role=Role.MEMBER, by=OPERATOR
    )
    assert (await cfo.sign_in("sub-cfo")).status_code == 303
    assert (await approved_by(cfo, ctx, recipients=both, quorum=2)).status_code == 403


@pytest.mark.parametrize("program", [issue_admin_token, issue_scim_key])
@pytest.mark.parametrize(("maker", "status"), [("boss@example.com", 403), (OPERATOR, 200)])
async def test_what_a_program_chooses_is_chosen_by_whoever_made_its_key(
    boss: Browser, cfo: Browser, ctx: ServerContext, program: Any, maker: str, status: int
) -> None:
    key = (await program(ctx, WORKSPACE, "ci", by=maker)).key
    async with httpx2.AsyncClient(base_url=boss.address, timeout=30) as http:
        bearer = {"authorization": f"Bearer {key}"}
        if program is issue_admin_token:
            await put_cfo(http, **bearer)
        else:
            user = {
                "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
                "userName": "cfo",
                "emails": [{"value": OTHER_ADDRESS, "primary": True}],
            }
            made = await http.post(
                "/scim/v2/Users", json=user, headers={**bearer, "content-type": "application/scim+json"}
            )
            assert made.status_code == 201, made.text
    assert (await cfo.sign_in("sub-cfo")).status_code == 303
    both = ["cfo", await boss.me()]
    assert (await approved_by(cfo, ctx, recipients=both, quorum=2)).status_code == status


async def test_a_provisioning_program_moves_nobody_to_another_account(
    boss: Browser, cfo: Browser, ctx: ServerContext
) -> None:
    key = (await issue_scim_key(ctx, WORKSPACE, "idp", by=OPERATOR)).key
    headers = {"authorization": f"Bearer {key}", "content-type": "application/scim+json"}
    user: dict[str, Any] = {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": "cfo",
        "emails": [{"value": OTHER_ADDRESS, "primary": True}],
    }
    async with httpx2.AsyncClient(base_url=boss.address, timeout=30, headers=headers) as http:
        assert (await http.post("/scim/v2/Users", json=user)).status_code == 201
        assert (await cfo.sign_in("sub-cfo")).status_code == 303
        user["emails"] = [{"value": "mallory@elsewhere.example", "primary": True}]
        assert (await http.put("/scim/v2/Users/cfo", json=user)).status_code == 200
    await cfo.account("sub-mallory", email="mallory@elsewhere.example", email_verified=True, name="M")
    refused = await cfo.sign_in("sub-mallory")
    assert (refused.status_code, "belongs to another account" in refused.text) == (403, True)
    assert (await cfo.sign_in("sub-cfo")).status_code == 303


async def test_people_who_join_by_themselves_and_those_whom_the_operator_adds_are_several(
    boss: Browser, cfo: Browser, ctx: ServerContext
) -> None:
    both = ["cfo", await boss.me()]
    await ctx.directory.put_person(
        WORKSPACE, "cfo", name="CFO", email=OTHER_ADDRESS, role=Role.MEMBER, by=OPERATOR
    )
    assert (await cfo.sign_in("sub-cfo")).status_code == 303
    for browser in (boss, cfo):
        assert (await approved_by(browser, ctx, recipients=both, quorum=2)).status_code == 200
