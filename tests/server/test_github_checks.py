"""GitHub's deployment protection rules: asked once, decided by people, told once, and nobody else gets in."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise import Approval, InvalidQuestion, Question, open_desk
from handraise.channels.deployment_checks import CheckChannel, CheckRules
from handraise.channels.deployment_checks.github import is_signed, open_github
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import open_backend
from handraise.errors import UnsafeStore
from handraise.model.callbacks import ServiceCallback
from handraise.model.deliveries import Delivery, DeliveryStatus
from handraise.model.drafting import Limits
from handraise.model.identities import Role
from handraise.model.questions import Ref
from handraise.ports import Backend
from handraise.ports.channel import NotSent
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import ManualClock
from support.http_server import listening
from support.issuer import Issuer
from support.server_process import SharedClock, start_server
from tests.channels.github_peer import (
    APP,
    ENVIRONMENT,
    KEY,
    REPOSITORY,
    SECRET,
    GitHubPeer,
    open_peer,
    signed,
)
from tests.server.conftest import bearer, on_every_store
from tests.server.test_callbacks import address_of

INBOUND = "/v1/checks/github/inbound"
WITHIN = 15.0
OTHER = "another secret of somebody"


@pytest.fixture
async def github() -> AsyncIterator[GitHubPeer]:
    async with open_peer() as peer:
        yield peer


def key_file(folder: Path) -> Path:
    path = folder / "github.pem"
    path.touch(mode=0o600)
    path.write_bytes(KEY.as_pem(private=True))
    return path


def given(github: GitHubPeer, folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "github_app_id": APP,
        "github_private_key": str(key_file(folder)),
        "github_webhook_secret": SECRET,
        "github_repositories": ["codertocat/*"],
        "github_api_url": github.url,
        "poll_interval": 0.1,
    } | changes


@pytest.fixture
def changes() -> dict[str, Any]:
    """Settings of a test; it replaces this by a parameter."""
    return {}


@pytest.fixture
def settings(github: GitHubPeer, tmp_path: Path, changes: dict[str, Any], workspace: str) -> dict[str, Any]:
    return given(github, tmp_path, workspace=workspace, github_workspace=workspace, **changes)


async def pending(ctx: ServerContext) -> list[Question]:
    return list((await ctx.desk.list_pending()).items)


async def told(ctx: ServerContext, question: Question) -> Delivery:
    """The delivery to GitHub, once nothing is left to do."""
    async with asyncio.timeout(WITHIN):
        while (found := (await ctx.outbox.deliveries(question.ref))[0]).status is DeliveryStatus.WAITING:
            await asyncio.sleep(0.02)
    return found


def test_the_signature_of_githubs_documentation() -> None:
    """The vector is in GitHub's page about validating webhook deliveries."""
    body, secret = b"Hello, World!", b"It's a Secret to Everybody"
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed(signature, body, secret)
    assert not is_signed(signature, b"Hello, World", secret)
    assert not is_signed(signature, body, b"another")
    assert not is_signed(signature.removeprefix("sha256="), body, secret)


@on_every_store
async def test_people_decide_and_github_is_told_once(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer, issuer: Issuer
) -> None:
    said = await client.post(INBOUND, **signed(github.payload()))
    assert said.status_code == 202
    [question] = await pending(ctx)
    assert isinstance(question.form, Approval)
    assert question.prompt == "Deploy Codertocat/Hello-World to production?"
    assert question.form.action.arguments == {
        "repository": REPOSITORY,
        "environment": ENVIRONMENT,
        "ref": "refs/heads/main",
        "sha": "f95f852bd8fca8fcc58a9a2d6c842781e32a215e",
        "event": "push",
        "run": "https://github.com/Codertocat/Hello-World/actions/runs/4811011513",
        "started_by": "Codertocat",
        "pull_requests": [2],
    }
    assert github.calls == 0
    ann = bearer(await issuer.person(ctx.settings.workspace, "ann"))
    path = f"/v1/questions/{question.id}/answer"
    assert (await client.post(path, json={"value": "approve"}, headers=ann)).status_code == 200
    assert (await told(ctx, question)).status is DeliveryStatus.UPDATED
    [decision] = github.decided
    assert decision == {
        "environment_name": ENVIRONMENT,
        "state": "approved",
        "comment": f"Approved by ann. http://127.0.0.1:8765/questions/{question.id}",
    }
    assert (await ctx.desk.scoped(asker="github").get(question.id)).consumed_at is not None


@pytest.mark.parametrize("ends", ["denied", "declined", "sent back", "withdrawn", "expired"])
async def test_whatever_is_no_approval_is_rejected(
    client: httpx2.AsyncClient, ctx: ServerContext, clock: ManualClock, github: GitHubPeer, ends: str
) -> None:
    await client.post(INBOUND, **signed(github.payload()))
    [question] = await pending(ctx)
    desk = ctx.desk.scoped(asker="github")
    match ends:
        case "denied":
            await desk.answer(question.id, {"decision": "deny", "reason": "not on a Friday"}, by="ann")
        case "declined":
            await desk.decline(question.id, by="ann")
        case "sent back":
            await desk.send_back(question.id, by="ann", reason="tag it first")
        case "withdrawn":
            await desk.withdraw(question.id)
        case "expired":
            clock.advance(timedelta(days=31))
            await desk.run_due()
    assert (await told(ctx, question)).status is DeliveryStatus.UPDATED
    assert [each["state"] for each in github.decided] == ["rejected"]


@pytest.fixture
async def channel(github: GitHubPeer) -> AsyncIterator[tuple[CheckChannel, LocalDesk, Backend]]:
    """The check on a store of its own, which nobody dispatches: a test calls back itself."""
    async with (
        open_backend("memory:") as ports,
        open_github(
            app_id=APP,
            private_key=KEY.as_pem(private=True),
            webhook_secret=SECRET,
            repositories=[REPOSITORY],
            api_url=github.url,
        ) as service,
    ):
        engine = Engine(ports.store, ports.bus)
        desk = LocalDesk(engine, workspace="default", asker="github", new_id=uuid7_ids(), limits=Limits())
        made = CheckChannel(service, desk, CheckRules(workspace="default"), base_url="https://desk.example")
        engine.callback_senders = {made.name: made}
        yield made, desk, ports
        await engine.close()


@pytest.mark.parametrize("meanwhile", ["taken back", "used", "stopped", "none"])
async def test_an_approval_is_passed_on_only_if_it_still_holds(
    channel: tuple[CheckChannel, LocalDesk, Backend], github: GitHubPeer, meanwhile: str
) -> None:
    check, desk, ports = channel
    request = signed(github.payload())
    assert (await check.receive(request["headers"], request["content"])).status == 202
    [question] = (await desk.list_pending()).items
    [delivery] = await ports.outbox.deliveries(question.ref)
    settled = await desk.answer(question.id, "approve", by="ann")
    match meanwhile:
        case "taken back":
            await desk.take_back(question.id, by="ann")
        case "used":
            await desk.consume_approval(question.id)
        case "stopped":
            await ports.policies.stop("default", tool="github_deployment", why="an incident", by="root")
    if meanwhile == "stopped":
        with pytest.raises(NotSent) as failed:
            await check.call_back(delivery.to, settled, id=delivery.id)
        assert failed.value.again
        assert github.decided == []
        return
    for _ in range(2):  # the answer to the first was lost
        github.waiting.add((delivery.to["url"], ENVIRONMENT))
        await check.call_back(delivery.to, settled, id=delivery.id)
    expected = "approved" if meanwhile == "none" else "rejected"
    assert [each["state"] for each in github.decided] == [expected, expected]
    assert github.decided[0] == github.decided[1]


async def test_the_same_event_again_is_the_same_question_and_a_run_that_is_started_again_is_another(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer
) -> None:
    event = github.payload()
    for delivery in ("one", "two", "three"):
        request = signed(event)
        request["headers"]["x-github-delivery"] = delivery  # GitHub does not sign it
        assert (await client.post(INBOUND, **request)).status_code == 202
    [question] = await pending(ctx)
    await ctx.desk.answer(question.id, "approve", by="ann")
    await told(ctx, question)
    assert (await client.post(INBOUND, **signed(event))).status_code == 202
    assert await pending(ctx) == []
    assert (github.calls, len(github.decided)) == (1, 1)
    again = github.payload(deployment=event["deployment"] | {"id": 145988747})
    assert (await client.post(INBOUND, **signed(again))).status_code == 202
    [other] = await pending(ctx)
    assert other.id != question.id
    await client.post(INBOUND, **signed(github.payload(environment="staging")))
    assert len(await pending(ctx)) == 2


def elsewhere(github: GitHubPeer) -> list[str]:
    """Callbacks that GitHub would not send, and that must not be called."""
    good = f"{github.url}/repos/{REPOSITORY}/actions/runs/7/deployment_protection_rule"
    return [
        good.replace("127.0.0.1", "evil.example"),
        good.replace("http://127.0.0.1", "http://127.0.0.1@evil.example"),
        good.replace("http:", "https:"),
        good.replace("/repos/", "/../repos/"),
        good.replace(REPOSITORY, "Codertocat/Other"),
        good.replace("/7/", "/../../../../7/"),
        good.replace("/7/", "/7%2f..%2f8/"),
        good.replace("/7/", "/٧/"),
        f"{good}?x=y",
        f"{good}#x",
        f"{good}\n",
        f" {good}",
        "",
    ]


async def test_only_the_configured_api_is_ever_called(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer
) -> None:
    for url in elsewhere(github):
        said = await client.post(INBOUND, **signed(github.payload() | {"deployment_callback_url": url}))
        assert said.status_code == 422, url
    assert await pending(ctx) == []
    service = ctx.checks["github"]
    for url in elsewhere(github):
        details = {"repository": REPOSITORY, "installation": 1, "environment": ENVIRONMENT}
        assert service.callback_problem(ServiceCallback(url, channel="github", details=details)), url


async def test_what_github_has_not_signed_changes_nothing(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer, issuer: Issuer
) -> None:
    body = json.dumps(github.payload()).encode()
    good = signed(github.payload())["headers"]["x-hub-signature-256"]
    forged = [
        {},
        {"x-hub-signature-256": ""},
        {"x-hub-signature-256": "sha256="},
        {"x-hub-signature-256": good.upper()},
        {"x-hub-signature-256": good[:-1]},
        {"x-hub-signature-256": "sha256=" + hmac.new(b"", body, hashlib.sha256).hexdigest()},
        {"x-hub-signature-256": "sha256=é"},
        {"x-hub-signature": "sha1=" + hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()},
        signed(github.payload(), secret=OTHER)["headers"],
        bearer(await issuer.agent(ctx.settings.workspace, "github")),
        bearer(await issuer.person(ctx.settings.workspace, "root")),
    ]
    for headers in forged:
        raw = {name: text.encode() for name, text in headers.items()}
        event = {"x-github-event": b"deployment_protection_rule"}
        assert (await client.post(INBOUND, content=body, headers=event | raw)).status_code == 401, headers
    changed = signed(github.payload())
    changed["content"] = changed["content"].replace(b"production", b"staging")
    assert (await client.post(INBOUND, **changed)).status_code == 401
    assert await pending(ctx) == []


async def test_what_is_signed_and_is_no_request_asks_nobody(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer
) -> None:
    event = github.payload()
    for status, request in [
        (204, signed({"zen": "Keep it logically awesome."}, kind="ping")),
        (204, signed(event, kind="deployment")),
        (204, signed(event | {"action": "completed"})),
        (422, signed(event | {"repository": event["repository"] | {"full_name": "mallory/Hello-World"}})),
        (400, signed({})),
        (400, signed(event | {"installation": None})),
        (400, signed(event | {"environment": "x" * 301})),
        (400, signed(event | {"repository": event["repository"] | {"id": "1"}, "sender": {}})),
        (413, signed(event | {"x": "y" * 600_000})),
    ]:
        assert (await client.post(INBOUND, **request)).status_code == status
    assert await pending(ctx) == []
    assert (await client.get(INBOUND)).status_code == 405
    assert (await client.post("/v1/checks/nothing/inbound", content=b"{}")).status_code == 404
    assert (await client.post("/v1/channels/github/inbound", **signed(event))).status_code == 404


async def test_a_deployment_of_an_installation_that_is_not_ours_is_never_approved(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer
) -> None:
    await client.post(INBOUND, **signed(github.payload(installation={"id": 666})))
    [question] = await pending(ctx)
    await ctx.desk.answer(question.id, "approve", by="ann")
    async with asyncio.timeout(WITHIN):
        while not (found := (await ctx.outbox.deliveries(question.ref))[0]).tries:
            await asyncio.sleep(0.02)
        while (found := (await ctx.outbox.deliveries(question.ref))[0]).problem is None:
            await asyncio.sleep(0.02)
    assert "404" in (found.problem or "")
    assert github.decided == []


@pytest.mark.parametrize(
    "changes", [{"github_people": {"CODERTOCAT": "ann"}, "github_recipients": ["ann", "bo"]}]
)
async def test_whoever_started_a_deployment_cannot_approve_it(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer, issuer: Issuer
) -> None:
    assert (await client.post(INBOUND, **signed(github.payload()))).status_code == 202
    [question] = await pending(ctx)
    path = f"/v1/questions/{question.id}/answer"
    for person, expected in (("ann", {403, 404}), ("eve", {403, 404}), ("bo", {200})):
        headers = bearer(await issuer.person(ctx.settings.workspace, person, role=Role.MEMBER))
        said = await client.post(path, json={"value": "approve"}, headers=headers)
        assert said.status_code in expected, person
    await told(ctx, question)
    assert [each["state"] for each in github.decided] == ["approved"]
    event = github.payload(sender={"login": "stranger"}, environment="staging")
    assert (await client.post(INBOUND, **signed(event))).status_code == 422
    assert await pending(ctx) == []


async def test_an_agent_cannot_make_a_server_call_github(
    client: httpx2.AsyncClient, ctx: ServerContext, github: GitHubPeer, issuer: Issuer
) -> None:
    """Not over HTTP, and not by a callback that leads there: an agent has no channel to choose."""
    url = github.payload()["deployment_callback_url"]
    bot = bearer(await issuer.agent(ctx.settings.workspace, "bot"))
    for callback in (
        {"url": url, "secret": "", "channel": "github"},
        {"url": url, "secret": ""},
        {"url": url, "secret": "whsec_" + "c2VjcmV0" * 5},
    ):
        body = {"prompt": "Go?", "callback": callback}
        assert (await client.post("/v1/questions", json=body, headers=bot)).status_code == 422
    key = await issuer.agent(ctx.settings.workspace, "bot")
    with socket.create_server(("127.0.0.1", 0)) as door:
        async with (
            listening(create_app(ctx), door),
            open_desk(f"http://127.0.0.1:{door.getsockname()[1]}", credentials=key) as desk,
        ):
            with pytest.raises(InvalidQuestion):
                await desk.post("Go?", callback=ServiceCallback(url, channel="github", details={}))


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("github_private_key", "to tell GitHub"),
        ("github_webhook_secret", "GitHub's requests"),
        ("github_repositories", "that may ask"),
    ],
)
def test_a_check_that_could_not_work_is_noticed_at_the_start(
    github: GitHubPeer, tmp_path: Path, missing: str, expected: str
) -> None:
    whole = given(github, tmp_path)
    assert ServerSettings(**whole).github_app_id == APP
    with pytest.raises(ValueError, match=expected):
        ServerSettings(**{name: value for name, value in whole.items() if name != missing})
    for wrong in (
        {"github_webhook_secret": "short"},
        {"github_repositories": ["acme"]},
        {"github_app_id": "a b"},
    ):
        with pytest.raises(ValueError, match="expected"):
            ServerSettings(**(whole | wrong))


async def test_a_key_that_others_may_read_or_that_is_none_is_refused(
    github: GitHubPeer, tmp_path: Path
) -> None:
    path = key_file(tmp_path)
    whole = given(github, tmp_path, url=f"sqlite:///{tmp_path / 'q.db'}")
    for mode, content, expected in (
        (0o644, path.read_bytes(), "chmod 600"),
        (0o600, b"no key", "GitHub made"),
    ):
        path.write_bytes(content)
        path.chmod(mode)
        with pytest.raises(UnsafeStore, match=expected):
            async with open_server(ServerSettings(**whole)):
                pass
        path.chmod(0o600)


@pytest.mark.slow("it starts two servers; the outbox contract shows that a callback outlives what was leased")
@pytest.mark.parametrize("lost", ["before the answer", "after the answer"])
async def test_a_server_that_is_killed_tells_github_all_the_same_and_only_once(
    tmp_path: Path, github: GitHubPeer, lost: str
) -> None:
    url, clock_file = f"sqlite:///{tmp_path / 'questions.db'}", tmp_path / "clock"
    clock_file.touch()
    clock = SharedClock(clock_file)
    async with open_backend(url, clock=clock) as ports:
        ann = await Issuer(ports.directory).person("default", "ann")
    given_to = {
        name: json.dumps(value) if isinstance(value, list) else str(value)
        for name, value in given(github, tmp_path).items()
    }
    github.faults.extend([503] * 50 if lost == "before the answer" else [])
    first = start_server(url, clock_file, 0, **given_to)
    try:
        async with httpx2.AsyncClient(base_url=await address_of(first)) as client:
            assert (await client.post(INBOUND, **signed(github.payload()))).status_code == 202
            (question,) = (await client.get("/v1/questions", headers=bearer(ann))).json()["items"]
            if lost == "before the answer":
                path = f"/v1/questions/{question['id']}/answer"
                said = await client.post(path, json={"value": "approve"}, headers=bearer(ann))
                assert said.status_code == 200
                async with asyncio.timeout(WITHIN):
                    while github.calls == 0:
                        await asyncio.sleep(0.02)
    finally:
        first.kill()
        first.wait()
        first.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    assert github.decided == []
    github.faults.clear()
    if lost == "after the answer":  # nobody runs while it is decided
        async with open_desk(url, clock=clock) as desk:
            await desk.answer(question["id"], "approve", by="ann")
    clock.advance(timedelta(minutes=2))
    second = start_server(url, clock_file, 0, **given_to)
    try:
        await address_of(second)
        place = Ref("default", question["id"])
        async with open_backend(url, clock=clock) as ports, asyncio.timeout(WITHIN):
            while (await ports.outbox.deliveries(place))[0].status is DeliveryStatus.WAITING:
                await asyncio.sleep(0.05)
    finally:
        second.terminate()
        await asyncio.to_thread(second.wait)
        second.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    assert [each["state"] for each in github.decided] == ["approved"]
