"""Addresses, routing and deliveries over HTTP: who may set them, what is refused, and what is never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import httpx2
import pytest

from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import bearer, on_every_store

Headers = dict[str, str]
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TO = {"url": "https://127.0.0.1:9/example.com?token=t0ken", "secret": SECRET}
PLACE = "/v1/addresses/ann/webhook/pager"


@pytest.fixture
def settings() -> dict[str, Any]:
    return {"webhooks": True, "webhook_allow_private": ["127.0.0.0/8"]}


@pytest.fixture
async def admin(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "boss", role=Role.ADMIN))


@pytest.fixture
async def ann(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.person(workspace, "ann", role=Role.MEMBER))


@pytest.fixture
async def agent(issuer: Issuer, workspace: str) -> Headers:
    return bearer(await issuer.agent(workspace, "bot"))


@pytest.fixture
def desk(ctx: ServerContext, workspace: str) -> LocalDesk:
    return ctx.desk.scoped(workspace, asker="bot")


async def put(
    client: httpx2.AsyncClient, headers: Headers, to: Any = TO, place: str = PLACE
) -> httpx2.Response:
    return await client.put(place, json={"to": to}, headers=headers)


class TestAddresses:
    async def test_one_is_put_replaced_listed_and_removed_and_its_secret_never_shown(
        self, client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        named = {"recipient": "ann", "channel": "webhook", "id": "pager"}
        for to in (TO, TO | {"url": "https://new.example.com/"}):
            made = await put(client, admin, to)
            assert (made.status_code, made.json()) == (200, named)
        [kept] = await ctx.outbox.addresses(workspace)
        assert kept.to == TO | {"url": "https://new.example.com/"}
        await put(client, admin, place="/v1/addresses/group:ops/webhook/1")
        await put(client, admin, place="/v1/addresses/*/webhook/1")
        listed = await client.get("/v1/addresses", headers=admin)
        assert [each["recipient"] for each in listed.json()["addresses"]] == ["*", "ann", "group:ops"]
        assert not any(part in listed.text for part in (SECRET, "t0ken", "example.com"))
        one = await client.get("/v1/addresses", params={"recipient": "ann"}, headers=admin)
        assert one.json() == {"addresses": [named]}
        for status in (204, 404):
            assert (await client.delete(PLACE, headers=admin)).status_code == status
        assert (await client.get("/v1/addresses?recipient=ann", headers=admin)).json() == {"addresses": []}

    async def test_only_administrators_have_anything_to_do_with_them(
        self, client: httpx2.AsyncClient, admin: Headers, ann: Headers, agent: Headers
    ) -> None:
        await put(client, admin)
        for headers, status in ((ann, 403), (agent, 403), ({}, 401)):
            said = [
                await put(client, headers, {"url": "https://evil.example/", "secret": SECRET}),
                await client.delete(PLACE, headers=headers),
                await client.get("/v1/addresses", headers=headers),
                await client.get("/v1/routing", headers=headers),
                await client.put("/v1/routing", json={}, headers=headers),
            ]
            assert {each.status_code for each in said} == {status}
        assert len((await client.get("/v1/addresses", headers=admin)).json()["addresses"]) == 1

    @pytest.mark.parametrize(
        ("place", "to", "path"),
        [
            ("/v1/addresses/ann/pigeon/1", TO, "path.channel"),
            (PLACE, None, "body.to"),
            (PLACE, "https://hooks.example.com", "body.to"),
            (PLACE, TO | {"url": "ftp://hooks.example.com"}, "body.to"),
            (PLACE, TO | {"url": "https://10.0.0.1/"}, "body.to"),
            (PLACE, TO | {"url": "http://93.184.216.34/"}, "body.to"),
            (PLACE, TO | {"secret": "hunter2"}, "body.to"),
            (PLACE, TO | {"extra": 1}, "body.to"),
            (PLACE, TO | {"url": "https://hooks.example.com/" + "x" * 9_000}, "body.to"),
            (PLACE, [[[[[[[[1]]]]]]]], "body.to"),
            ("/v1/addresses/ann%00/webhook/1", TO, "path"),
            ("/v1/addresses/ann/webhook/%00", TO, "path"),
        ],
    )
    async def test_what_could_never_be_used_is_refused(
        self, client: httpx2.AsyncClient, admin: Headers, place: str, to: Any, path: str
    ) -> None:
        refused = await put(client, admin, to, place)
        assert refused.status_code == 422, refused.text
        [problem] = refused.json()["problems"]
        assert problem["path"].startswith(path)
        assert SECRET not in refused.text
        assert (await client.get("/v1/addresses", headers=admin)).json() == {"addresses": []}

    async def test_an_address_of_another_shape_is_answered_with_the_right_one(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        refused = await put(client, admin, {"hook": "https://hooks.example.com"})
        [problem] = refused.json()["problems"]
        assert problem["message"] == (
            'is not an address of this channel: write {"url": "https://pager.example.com/hook", "secret": "whsec_…"}'
        )

    async def test_names_that_nobody_can_have_are_nowhere(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        listed = await client.get("/v1/addresses", params={"recipient": "a\x00"}, headers=admin)
        assert listed.json() == {"addresses": []}
        gone = await client.delete("/v1/addresses/ann/webhook/%00", headers=admin)
        assert gone.status_code == 404

    async def test_those_of_another_workspace_are_not_seen(
        self, client: httpx2.AsyncClient, admin: Headers, issuer: Issuer, workspace: str
    ) -> None:
        await put(client, admin)
        other = bearer(await issuer.person(f"{workspace}-2", "boss", role=Role.ADMIN))
        assert (await client.get("/v1/addresses", headers=other)).json() == {"addresses": []}
        assert (await client.delete(PLACE, headers=other)).status_code == 404
        await client.put("/v1/routing", json={"anybody": {"per_hour": 1}}, headers=other)
        assert (await client.get("/v1/routing", headers=admin)).json()["anybody"]["per_hour"] is None


class TestRouting:
    POLICY: ClassVar[dict[str, Any]] = {
        "rules": [{"asker": "bot", "risk": "high", "channels": ["webhook"], "urgent": True}],
        "people": {"ann": {"hours": {"timezone": "Europe/Vienna", "opens": "08:00", "closes": "17:30"}}},
        "anybody": {"per_hour": 20},
        "agents": {"bot": 100},
        "on_call": {"ops": ["ann", "bob"]},
    }

    @on_every_store
    async def test_of_two_who_change_it_the_second_is_told_and_overwrites_nothing(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        await client.put("/v1/routing", json={}, headers=admin)
        read = await client.get("/v1/routing", headers=admin)
        tag = {"if-match": read.headers["etag"]}
        first = await client.put("/v1/routing", json=self.POLICY, headers=admin | tag)
        assert first.status_code == 200
        second = await client.put("/v1/routing", json={"anybody": {"per_hour": 1}}, headers=admin | tag)
        assert (second.status_code, second.json()["code"]) == (412, "precondition_failed")
        assert "Read it again" in second.json()["detail"]
        now = await client.get("/v1/routing", headers=admin)
        assert now.json() == first.json()
        assert now.headers["etag"] == first.headers["etag"] != read.headers["etag"]
        tags = {"if-match": f'"other", {now.headers["etag"]}'}
        assert (await client.put("/v1/routing", json={}, headers=admin | tags)).status_code == 200
        for whatever in ({}, {"if-match": "*"}):
            assert (await client.put("/v1/routing", json={}, headers=admin | whatever)).status_code == 200

    async def test_it_is_what_was_put_with_everything_that_was_left_out(
        self, client: httpx2.AsyncClient, admin: Headers
    ) -> None:
        empty = (await client.get("/v1/routing", headers=admin)).json()
        assert empty["rules"] == []
        put = await client.put("/v1/routing", json=self.POLICY, headers=admin)
        assert put.status_code == 200
        got = (await client.get("/v1/routing", headers=admin)).json()
        assert got == put.json()
        assert got["people"]["ann"]["hours"]["timezone"] == "Europe/Vienna"
        assert got["people"]["ann"]["hours"]["days"] == ["mon", "tue", "wed", "thu", "fri"]
        await client.put("/v1/routing", json={}, headers=admin)
        assert (await client.get("/v1/routing", headers=admin)).json() == empty

    @pytest.mark.parametrize(
        "policy",
        [
            {"unknown": 1},
            {"rules": [{"risk": "extreme"}]},
            {"rules": [{}] * 201},
            {"anybody": {"per_hour": 0}},
            {"people": {"ann": {"hours": {"timezone": "Mars/Olympus"}}}},
            {"people": {"ann": {"hours": {"timezone": "../../../etc/passwd"}}}},
            {"people": {"ann": {"hours": {"days": []}}}},
            {"people": {"ann": {"hours": {"opens": "25:00"}}}},
            {"agents": {"": 3}},
            {"on_call": {"ops": ["\x00"]}},
        ],
        ids=str,
    )
    async def test_what_makes_no_sense_is_refused(
        self, client: httpx2.AsyncClient, admin: Headers, policy: Any
    ) -> None:
        refused = await client.put("/v1/routing", json=policy, headers=admin)
        assert refused.status_code == 422, refused.text
        assert (await client.get("/v1/routing", headers=admin)).json()["rules"] == []

    async def test_what_a_newer_release_wrote_does_not_stop_anybody(
        self, client: httpx2.AsyncClient, admin: Headers, ctx: ServerContext, workspace: str
    ) -> None:
        await ctx.outbox.put_routing(workspace, {"from the future": True})
        assert (await client.get("/v1/routing", headers=admin)).json()["rules"] == []


class TestDeliveries:
    async def test_whoever_sees_a_question_sees_what_became_of_its_messages_and_no_address(
        self,
        client: httpx2.AsyncClient,
        admin: Headers,
        ann: Headers,
        agent: Headers,
        issuer: Issuer,
        desk: LocalDesk,
        workspace: str,
    ) -> None:
        await put(client, admin)
        question = await desk.post("Go?", recipients=["ann"])
        place = f"/v1/questions/{question.id}/deliveries"
        await seen(
            client, place, admin, lambda found: found["deliveries"] and found["deliveries"][0]["problem"]
        )
        shown = [await client.get(place, headers=each) for each in (ann, agent, admin)]
        assert {each.status_code for each in shown} == {200}
        assert shown[1].json() == {"unreached": False, "deliveries": []}, (
            "whom it reaches is no agent's affair"
        )
        assert shown[2].json()["deliveries"][0]["problem"] == "it could not be reached"
        [delivery] = shown[0].json()["deliveries"]
        assert delivery["problem"] is None, "why it failed is for administrators"
        assert (delivery["recipient"], delivery["channel"], delivery["reason"]) == ("ann", "webhook", "asked")
        assert not any(part in shown[0].text for part in (SECRET, "t0ken", "example.com"))
        others = [
            bearer(await issuer.agent(workspace, "other-bot")),
            bearer(await issuer.person(workspace, "cid", role=Role.MEMBER)),
        ]
        for each in others:
            hidden = await client.get(place, headers=each)
            nowhere = await client.get("/v1/questions/nowhere/deliveries", headers=each)
            assert (hidden.status_code, nowhere.status_code) == (404, 404)
            assert hidden.content.replace(question.id.encode(), b"nowhere") == nowhere.content

    async def test_that_nobody_could_be_reached_is_said(
        self, client: httpx2.AsyncClient, admin: Headers, agent: Headers, desk: LocalDesk
    ) -> None:
        await put(client, admin)
        question = await desk.post("Go?", recipients=["nobody"])
        place = f"/v1/questions/{question.id}/deliveries"
        found = await seen(client, place, agent, lambda found: found["unreached"])
        assert found == {"unreached": True, "deliveries": []}

    @pytest.mark.usefixtures("ann")
    async def test_each_says_what_went_wrong_and_when_it_is_tried_again(
        self, client: httpx2.AsyncClient, admin: Headers, desk: LocalDesk
    ) -> None:
        await put(client, admin)
        question = await desk.post("Go?", recipients=["ann"])
        place = f"/v1/questions/{question.id}/deliveries"
        found = await seen(
            client, place, admin, lambda found: found["deliveries"] and found["deliveries"][0]["problem"]
        )
        [delivery] = found["deliveries"]
        assert (found["unreached"], delivery["status"], delivery["tries"]) == (False, "queued", 1)
        assert (delivery["problem"], delivery["sent_at"]) == ("it could not be reached", None)
        assert delivery["due_at"] > delivery["created_at"]

    @on_every_store
    @pytest.mark.usefixtures("ann")
    async def test_an_answer_before_its_turn_leaves_it_unsent(
        self, client: httpx2.AsyncClient, admin: Headers, desk: LocalDesk
    ) -> None:
        await put(client, admin)
        await client.put("/v1/routing", json={"anybody": {"per_hour": 1}}, headers=admin)
        first = await desk.post("Go?", recipients=["ann"])
        await seen(client, f"/v1/questions/{first.id}/deliveries", admin, lambda found: found["deliveries"])
        second = await desk.post("Go?", recipients=["ann"])
        place = f"/v1/questions/{second.id}/deliveries"
        await seen(client, place, admin, lambda found: found["deliveries"])
        await desk.answer(second.id, "yes", by="ann")
        found = await seen(client, place, admin, lambda found: found["deliveries"][0]["status"] != "queued")
        assert found["deliveries"][0]["status"] == "unsent"


class TestInbound:
    async def test_only_what_a_channel_takes_gets_in(self, client: httpx2.AsyncClient) -> None:
        for channel in ("pigeon", "Webhook", "%00", "x" * 5_000):
            said = await client.post(f"/v1/channels/{channel}/inbound", content=b"{}")
            assert (said.status_code, said.content) == (404, b"")
        assert (await client.get("/v1/channels/webhook/inbound")).status_code == 405
        assert (await client.post("/v1/channels/webhook/inbound", content=b"{}")).status_code == 401

    async def test_who_sends_what_is_not_genuine_is_slowed_down(
        self, client: httpx2.AsyncClient, client_from: Callable[[str], httpx2.AsyncClient], ctx: ServerContext
    ) -> None:
        said = [
            (await client.post("/v1/channels/webhook/inbound", content=b"{}")).status_code for _ in range(40)
        ]
        assert (said[0], said[-1]) == (401, 429)
        async with client_from("198.51.100.7") as other:
            assert (await other.post("/v1/channels/webhook/inbound", content=b"{}")).status_code == 401
        large = b"x" * (ctx.settings.body_limit + 1)
        assert (await client.post("/v1/channels/webhook/inbound", content=large)).status_code == 413


async def seen(client: httpx2.AsyncClient, place: str, headers: Headers, enough: Callable[[Any], Any]) -> Any:
    """What is there as soon as it is enough."""
    async with asyncio.timeout(10):
        while not enough(found := (await client.get(place, headers=headers)).json()):
            await asyncio.sleep(0.01)
    return found
