"""Ordinary requests of hot operations are served without FastAPI's routing, and nobody can tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from handraise.model.identities import Role
from handraise.server import ServerContext
from handraise.server.api import fast_routes
from support.issuer import Issuer
from tests.server.conftest import bearer

ASK = "/v1/questions"
GIVEN = {"prompt": "Which?", "choices": ["a", "b"]}
SLIPPED = {"prompt": "Which?", "form": {"kind": "open", "typ": "integer"}}
JSON = {"content-type": "application/json"}


@pytest.fixture
def store() -> str:
    """The way to the functions of the routes does not depend on the store."""
    return "memory:"


@pytest.fixture(params=["fast", "through FastAPI"])
async def way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, app: FastAPI
) -> AsyncIterator[list[str]]:
    """Both ways; the paths of the fast routes that were taken."""
    taken: list[str] = []
    find = fast_routes._find  # noqa: SLF001 -- to see which way is taken

    def noted(scope: Any) -> Any:
        route = find(scope)
        if route is None or request.param != "fast":
            return None
        taken.append(route.path)
        return route

    del app
    monkeypatch.setattr(fast_routes, "_find", noted)
    yield taken
    assert bool(taken) is (request.param == "fast")


def plain(response: httpx2.Response) -> tuple[int, str, Any]:
    """What a client can tell two responses by, without what is new each time."""
    body = response.json()
    for name in ("id", "asked_at", "url", "cursor"):
        body.pop(name, None)
    if body.get("outcome"):
        body["outcome"].pop("at", None)
    return response.status_code, response.headers["content-type"], body


CASES: dict[str, tuple[dict[str, Any], int, str | None]] = {
    "an ordinary question": ({"json": GIVEN}, 201, None),
    "no JSON": ({"content": b"{", "headers": JSON}, 422, "invalid_request"),
    "nothing": ({"content": b"", "headers": JSON}, 422, "invalid_request"),
    "a list": ({"json": [GIVEN]}, 422, "invalid_request"),
    "an unknown field": ({"json": {**GIVEN, "colour": "red"}}, 422, "invalid_request"),
    "a slip inside": ({"json": SLIPPED}, 422, "invalid_request"),
    "a wrong type": ({"json": {"prompt": 1}}, 422, "invalid_request"),
    "a lone surrogate": ({"content": b'{"prompt": "\\ud800"}', "headers": JSON}, 422, "invalid_question"),
    "what cannot be asked": ({"json": {**GIVEN, "choices": ["a", "a"]}}, 422, "invalid_question"),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_question_gets_the_same_response_on_both_ways(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, way: list[str], case: str
) -> None:
    given, status, code = CASES[case]
    headers = bearer(await issuer.agent(workspace, "bot")) | given.get("headers", {})
    said = await client.post(ASK, **{**given, "headers": headers})
    assert (said.status_code, said.json().get("code")) == (status, code)
    if "an unknown" in case:
        assert said.json()["problems"] == [{"path": "body.colour", "message": "there is no such field"}]
    if "a slip" in case:
        message = "there is no such field; did you mean 'type'?"
        assert said.json()["problems"] == [{"path": "body.form.typ", "message": message}]
    assert said.headers["cache-control"] == "no-store"
    assert way in ([], [ASK])


async def test_an_answer_and_its_outcome_are_the_same_on_both_ways(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, way: list[str]
) -> None:
    bot = bearer(await issuer.agent(workspace, "bot"))
    ana, other = [bearer(await issuer.person(workspace, each, role=Role.MEMBER)) for each in ("ana", "bo")]
    question = (await client.post(ASK, json=GIVEN | {"recipients": ["ana"]}, headers=bot)).json()["id"]
    place = f"{ASK}/{question}"
    waited = await client.get(f"{place}/outcome?wait=1ms", headers=bot)
    assert plain(waited)[2] == {"status": "pending", "outcome": None}
    assert (await client.get(f"{place}/outcome?wait=soon", headers=bot)).status_code == 422
    for headers, status in ((bot, 403), (other, 404), ({}, 401)):
        refused = await client.post(f"{place}/answer", json={"value": "a"}, headers=headers)
        assert refused.status_code == status
    assert (await client.post(f"{place}/answer", json={"value": "c"}, headers=ana)).status_code == 422
    assert (await client.post(f"{ASK}/nowhere/answer", json={"value": "a"}, headers=ana)).status_code == 404
    assert (await client.post(f"{place}/answer", json={"value": "a"}, headers=ana)).status_code == 200
    assert (await client.post(f"{place}/answer", json={"value": "b"}, headers=ana)).status_code == 409
    outcome = (await client.get(f"{place}/outcome", headers=bot)).json()["outcome"]
    assert (outcome["value"], outcome["by"]) == ("a", "ana")
    assert {*way} <= {ASK, f"{ASK}/{{question_id}}/answer", f"{ASK}/{{question_id}}/outcome"}


@pytest.mark.parametrize("settings", [{"rate_limit": "2/minute"}])
async def test_a_request_that_goes_on_to_fastapi_counts_once(
    client: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    del ctx
    headers = bearer(await issuer.agent(workspace, "bot"))
    said = [await client.post(ASK, json={"prompt": 1}, headers=headers) for _ in range(3)]
    assert [each.status_code for each in said] == [422, 422, 429]


async def test_only_the_asker_may_wait_for_a_question_that_the_server_still_knows(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str, way: list[str]
) -> None:
    """Its asker need not read it first; everybody else is refused at once, as for any other question."""
    del way
    own = bearer(await issuer.agent(workspace, "bot"))
    await issuer.person(workspace, "ana", role=Role.MEMBER)
    asked = (await client.post(ASK, json={**GIVEN, "recipients": ["ana"]}, headers=own)).json()
    path = f"{ASK}/{asked['id']}/outcome?wait=1ms"
    waited = await client.get(path, headers=own)
    assert (waited.status_code, waited.json()["status"]) == (200, "pending")
    strangers = [
        await issuer.agent(workspace, "other"),
        await issuer.agent(f"{workspace}-2", "bot"),
        await issuer.person(workspace, "eve", role=Role.MEMBER),
    ]
    for stranger in strangers:
        assert (await client.get(path, headers=bearer(stranger))).status_code == 404
