"""Who may report what came of an answer: the agent that asked, with its own key, and nobody else."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Approval, Question
from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.testing import promise
from handraise.testing.contract.backend import fed
from support.issuer import Issuer
from tests.server.conftest import bearer

DONE = {"ok": True, "text": "182,441 rows", "link": "https://a.example/7", "details": {"rows": 182441}}


@pytest.fixture
async def question(ctx: ServerContext, workspace: str) -> Question:
    """An approval that the agent `bot` has consumed."""
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Export?", form=Approval.of("export"), recipients=["ana"])
    await desk.answer(question.id, "approve", by="ana")
    await desk.consume_approval(question.id)
    return question


async def test_the_agent_reports_and_everybody_who_may_see_the_question_reads_it(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    agent, person = (
        bearer(await issuer.agent(workspace, "bot")),
        bearer(await issuer.person(workspace, "ana")),
    )
    where = f"/v1/questions/{question.id}"
    said = await client.post(f"{where}/report", json=DONE, headers=agent)
    assert said.status_code == 200
    for record in (
        said.json(),
        *[(await client.get(where, headers=each)).json() for each in (agent, person)],
    ):
        assert {name: record["report"][name] for name in DONE} == DONE
    history = (await client.get(f"{where}/history", headers=person)).json()["items"]
    assert (history[-1]["kind"], history[-1]["data"]) == ("reported", DONE)
    assert [each.kind for each in await fed(ctx.desk.scoped(workspace), 4)][-1] == "reported"
    again = await client.post(f"{where}/report", json=DONE, headers=agent)
    assert (again.status_code, again.json()["report"]) == (200, said.json()["report"])
    other = await client.post(f"{where}/report", json={**DONE, "ok": False}, headers=agent)
    assert (other.status_code, other.json()["code"]) == (409, "already_reported")
    assert other.json()["report"] == said.json()["report"]


@promise("P8")
async def test_nobody_else_reports(
    client: httpx2.AsyncClient, issuer: Issuer, ctx: ServerContext, workspace: str, question: Question
) -> None:
    strangers = {
        "another agent": (await issuer.agent(workspace, "other"), 404),
        "a person": (await issuer.person(workspace, "ana"), 403),
        "an administrator": (await issuer.person(workspace, "root", role=Role.ADMIN), 403),
        "another workspace": (await issuer.agent(f"{workspace}-2", "bot"), 404),
        "nobody": ("hrk_nothing", 401),
    }
    for name, (token, status) in strangers.items():
        said = await client.post(f"/v1/questions/{question.id}/report", json=DONE, headers=bearer(token))
        assert said.status_code == status, name
    assert (await ctx.desk.scoped(workspace).get(question.id)).report is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"link": "javascript:alert(1)"}, "invalid_report"),
        ({"text": " "}, "invalid_report"),
        ({"ok": "yes"}, "invalid_request"),
        ({"ok": None}, "invalid_request"),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, question: Question, change: Any, code: str
) -> None:
    headers = bearer(await issuer.agent(workspace, "bot"))
    said = await client.post(f"/v1/questions/{question.id}/report", json={**DONE, **change}, headers=headers)
    assert (said.status_code, said.json()["code"]) == (422, code)
    assert [each["path"].removeprefix("body.") for each in said.json()["problems"]] == [*change]
