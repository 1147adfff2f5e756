"""What has ended, over HTTP: each caller sees their own, and a high risk is decided by people in person."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from handraise import Approval
from handraise.desks import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import promise
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


@pytest.fixture
async def ended(desk: LocalDesk) -> list[str]:
    """Three questions of a bot that have ended, one of another bot, and one that waits."""
    questions = [
        await desk.post("For anyone?", state={"step": 1}),
        await desk.post("For Ana?", recipients=["ana"], conversation="c"),
        await desk.post("For Bob?", recipients=["bob"]),
        await desk.scoped(asker="other").post("From elsewhere?", recipients=["bob"]),
    ]
    await desk.post("Waiting?", recipients=["ana", "bob"])
    for question, by in zip(questions, ("cy", "ana", "bob", "bob"), strict=True):
        await desk.answer(question.id, "a", by=by)
    return [question.id for question in questions]


@promise("P8")
@pytest.mark.usefixtures("ended")
@on_every_store
async def test_each_caller_sees_what_has_ended_of_what_concerns_them(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    tokens = {
        "bot": await issuer.agent(workspace, "bot"),
        "other": await issuer.agent(workspace, "other"),
        "third": await issuer.agent(workspace, "third"),
        "ana": await issuer.person(workspace, "ana", role=Role.MEMBER),
        "bob": await issuer.person(workspace, "bob", role=Role.MEMBER),
        "root": await issuer.person(workspace, "root", role=Role.ADMIN),
        "next door": await issuer.person(f"{workspace} next door", "root", role=Role.ADMIN),
    }

    async def listed(who: str, **query: str) -> list[str]:
        query = {"status": "settled", **query}
        page = (await client.get("/v1/questions", params=query, headers=bearer(tokens[who]))).json()
        assert page["next"] is None
        return [question["prompt"] for question in page["items"]]

    assert await listed("bot") == ["For Bob?", "For Ana?", "For anyone?"]
    assert await listed("bot", conversation="c") == ["For Ana?"]
    assert await listed("bot", asker="other") == []
    assert await listed("other") == ["From elsewhere?"]
    assert await listed("third") == []
    assert await listed("ana") == ["For Ana?", "For anyone?"]
    assert await listed("ana", recipient="ana", asker="other") == []
    assert await listed("bob") == ["From elsewhere?", "For Bob?", "For anyone?"]
    assert await listed("root") == ["From elsewhere?", "For Bob?", "For Ana?", "For anyone?"]
    assert await listed("root", recipient="root") == ["For anyone?"]
    assert await listed("next door") == []
    # A filter never shows more than its caller may see.
    assert await listed("root", by="bob", outcome="answered") == ["From elsewhere?", "For Bob?"]
    assert await listed("ana", by="bob") == []
    assert await listed("bot", by="bob") == ["For Bob?"]
    assert await listed("root", outcome="denied") == []
    assert await listed("root", until="2001-01-01T00:00:00Z") == []
    assert len(await listed("root", since="2001-01-01T00:00:00+02:00")) == 4
    for who, query in (("ana", {"recipient": "bob"}), ("bot", {"recipient": "bot"})):
        asked = {"status": "settled", **query}
        refused = await client.get("/v1/questions", params=asked, headers=bearer(tokens[who]))
        assert refused.status_code == 403
    assert (await client.get("/v1/questions", params={"status": "settled"})).status_code == 401


@on_every_store
async def test_pages_go_on_and_only_the_asker_gets_its_state(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, ended: list[str]
) -> None:
    states = {}
    for token in (await issuer.agent(workspace, "bot"), await issuer.person(workspace, "cy")):
        found: list[dict[str, Any]] = []
        after: str | None = None
        for _ in range(10):
            query = {"status": "settled", "limit": "1"} | ({} if after is None else {"after": after})
            page = (await client.get("/v1/questions", params=query, headers=bearer(token))).json()
            assert len(page["items"]) <= 1
            found += page["items"]
            after = page["next"]
            if after is None:
                break
        assert found[-1]["id"] == ended[0]
        assert len({question["id"] for question in found}) == len(found) >= 3
        states[token[:3]] = found[-1]["state"]
    assert states == {"hra": {"step": 1}, "hrs": None}


@pytest.mark.parametrize(
    "query",
    [
        {"after": "nonsense"},
        {"after": "1;2"},
        {"after": "9" * 100},
        {"status": "answered"},
        {"outcome": "approve"},
        {"since": "yesterday"},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"until": "2026-01-01T00:00:00"},
    ],
)
async def test_what_is_no_cursor_and_no_status_cannot_be_read(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, query: dict[str, str]
) -> None:
    asked = {"status": "settled", **query}
    refused = await client.get(
        "/v1/questions", params=asked, headers=bearer(await issuer.agent(workspace, "bot"))
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert [each["path"] for each in refused.json()["problems"]] == [f"query.{next(iter(query))}"]


async def test_filters_of_what_is_settled_are_refused_for_what_waits(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    given = {"by": "ana", "outcome": "denied"}
    refused = await client.get(
        "/v1/questions", params=given, headers=bearer(await issuer.agent(workspace, "bot"))
    )
    assert refused.status_code == 422
    assert {each["path"] for each in refused.json()["problems"]} == {"query.by", "query.outcome"}


@promise("P11")
async def test_an_action_of_high_risk_is_decided_by_a_session_and_by_nothing_less(
    client: httpx2.AsyncClient, issuer: Issuer, desk: LocalDesk, workspace: str
) -> None:
    agent = bearer(await issuer.agent(workspace, "bot"))
    form = {"kind": "approval", "action": {"tool": "drop", "arguments": {}}, "risk": "high"}
    body = {"prompt": "Drop it?", "form": form, "conversation": "c", "tool_call": "call_1"}
    posted = (await client.post("/v1/questions", json=body, headers=agent)).json()
    assert posted["form"]["risk"] == "high"
    where, ana = f"/v1/questions/{posted['id']}", bearer(await issuer.person(workspace, "ana"))
    for verb, said in (
        ("answer", {"value": "approve"}),
        ("answer", {"value": {"decision": "deny"}}),
        ("decline", {}),
    ):
        refused = await client.post(
            f"{where}/{verb}", json={**said, "evidence": "client-asserted"}, headers=ana
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        assert "of high risk" in refused.json()["reason"]
    for decision in ("approve", "deny"):
        result = {"agent": "bot", "tool_call_id": f"approval_{posted['id']}", "decision": decision}
        refused = await client.post("/v1/conversations/c/tool-results", json=result, headers=ana)
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert [event.kind for event in await desk.history(posted["id"])] == ["asked"]
    assert (await client.post(f"{where}/consume", json={}, headers=agent)).status_code == 409
    assert (await client.post(f"{where}/answer", json={"value": "approve"}, headers=ana)).status_code == 200
    consumed = await client.post(f"{where}/consume", json={}, headers=agent)
    assert consumed.json() == {"tool": "drop", "arguments": {}}


async def test_what_was_said_before_there_was_a_risk_reads_as_it_did(
    client: httpx2.AsyncClient, issuer: Issuer, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post("Pay?", form=Approval.of("pay"))
    headers = bearer(await issuer.agent(workspace, "bot"))
    record = (await client.get(f"/v1/questions/{question.id}", headers=headers)).json()
    assert "risk" not in record["form"]
    wide = {**record["form"], "risk": "high", "scopes": ["once", "always"]}
    refused = await client.post("/v1/questions", json={"prompt": "Pay?", "form": wide}, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_question")
    assert [each["path"] for each in refused.json()["problems"]] == ["form.scopes"]


async def signed_in_by(client: httpx2.AsyncClient, admin: dict[str, str], person: str) -> dict[str, str]:
    """The headers of a session that begins with a link which an administrator has made."""
    made = (await client.post(f"/v1/people/{person}/links", headers=admin)).json()
    token = parse_qs(urlsplit(made["url"]).query)["token"][0]
    opened = await client.post("/v1/sessions", json={"link": token})
    return bearer(opened.json()["token"])


@promise("P11")
async def test_one_administrator_is_not_everybody(
    client: httpx2.AsyncClient, issuer: Issuer, desk: LocalDesk, workspace: str
) -> None:
    agent, admin = (
        bearer(await issuer.agent(workspace, "bot")),
        bearer(await issuer.person(workspace, "boss")),
    )
    form = {"kind": "approval", "action": {"tool": "wipe", "arguments": {}}, "risk": "high"}
    people = ["cfo", "ciso"]
    for person in people:
        await client.put(f"/v1/people/{person}", json={"name": person, "role": "admin"}, headers=admin)
    body = {"prompt": "Wipe it?", "form": form, "recipients": people, "quorum": 2}
    wipe = (await client.post("/v1/questions", json=body, headers=agent)).json()
    for person in people:
        session = await signed_in_by(client, admin, person)
        # Such a session makes no links, and what they claim makes it no surer.
        assert (await client.post(f"/v1/people/{person}/links", headers=session)).status_code == 403
        for said in ({}, {"evidence": "session"}):
            approved = await client.post(
                f"/v1/questions/{wipe['id']}/answer", json={"value": "approve", **said}, headers=session
            )
            assert (approved.status_code, approved.json()["code"]) == (403, "permission_denied")
            assert "'boss' made the link" in approved.json()["reason"]
        shown = await client.get(f"/questions/{wipe['id']}", headers=session)
        assert "&#39;boss&#39; made the link" in shown.text
    assert [event.kind for event in await desk.history(wipe["id"])] == ["asked"]


async def test_the_history_says_once_who_made_the_link_of_one_person(
    client: httpx2.AsyncClient, issuer: Issuer, desk: LocalDesk, workspace: str
) -> None:
    admin = bearer(await issuer.person(workspace, "boss"))
    await client.put("/v1/people/cfo", json={"name": "Cleo"}, headers=admin)
    asked = await desk.post("Pay?", form=Approval.of("pay"), recipients=["cfo"])
    cfo = await signed_in_by(client, admin, "cfo")
    for verb in ("take", "release", "take"):
        done = await client.post(f"/v1/questions/{asked.id}/{verb}", json={}, headers=cfo)
        assert done.status_code == 200, done.text
    page = (await client.get(f"/questions/{asked.id}", headers=admin)).text
    assert page.count("signed in with a link that boss made") == 1


async def test_the_history_says_who_made_the_link_that_somebody_answered_with(
    client: httpx2.AsyncClient, issuer: Issuer, desk: LocalDesk, workspace: str
) -> None:
    admin = bearer(await issuer.person(workspace, "boss"))
    await client.put("/v1/people/cfo", json={"name": "Cleo"}, headers=admin)
    asked = await desk.post("Pay?", form=Approval.of("pay"), recipients=["cfo"])
    cfo = await signed_in_by(client, admin, "cfo")
    answered = await client.post(f"/v1/questions/{asked.id}/answer", json={"value": "approve"}, headers=cfo)
    assert answered.json()["outcome"]["evidence"] == "session-vouched-by:boss"
    told = (await client.get(f"/v1/questions/{asked.id}/history", headers=admin)).json()["items"][-1]
    assert told["data"]["evidence"] == "session-vouched-by:boss"
    page = (await client.get(f"/questions/{asked.id}", headers=admin)).text
    assert page.count("signed in with a link that boss made") == 2
