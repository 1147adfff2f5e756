"""Sweeps over what the document does not have: the doors of channels, and the pages. A new one is swept by itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from handraise import Approval, Question
from handraise.model.deliveries import DeliveryStatus
from handraise.model.identities import Role
from handraise.model.webhook_signatures import signed
from handraise.server import create_app
from handraise.server.auth.issuer import issue_question_link
from handraise.testing import promise
from support.issuer import Issuer
from tests.server.every_channel import (
    DISCORD,
    SLACK,
    TEAMS,
    TELEGRAM,
    WEBHOOK_KEY,
    Everything,
    open_everything,
)
from tests.server.test_sweeps import pages

pytestmark = pytest.mark.asyncio(loop_scope="module")

MINE, THEIRS = "default", "theirs"
CHANNELS = ("webhook", "slack", "telegram", "discord", "teams", "email", "webpush")
INBOUND = "/v1/channels/{}/inbound"
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "PROPFIND")
NO_DOOR = {"webpush"}
"""Channels through which nothing comes back."""
NOT_STATE = {"listeners", "agent_keys", "people", "seals", "salts"}
"""What changes with any request: who listens, when a key was used, when somebody was last here, what is sealed and indexed."""


@dataclass
class Place:
    """A workspace with a question that everybody was told of, and everybody's tokens."""

    question: Question
    tokens: Mapping[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweeps") / "questions.db"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything(path: Path) -> AsyncIterator[Everything]:
    async with open_everything(f"sqlite:///{path}") as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(everything: Everything) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(everything.ctx))
    async with httpx2.AsyncClient(transport=transport, base_url="https://desk.example", verify=False) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mine(everything: Everything) -> Place:
    return await furnish(everything, MINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(everything: Everything) -> Place:
    return await furnish(everything, THEIRS)


async def furnish(everything: Everything, workspace: str) -> Place:
    ctx = everything.ctx
    await everything.introduce(workspace)
    issuer = Issuer(ctx.directory)
    tokens = {
        "agent": await issuer.agent(workspace, "bot"),
        "admin": await issuer.person(workspace, "root", role=Role.ADMIN),
        "member": await issuer.person(workspace, "ann", role=Role.MEMBER),
    }
    desk = ctx.desk.scoped(workspace, asker="bot")
    question = await desk.post("Pay zqxj?", form=Approval.of("pay", {"n": 1}), recipients=["ann"])
    async with asyncio.timeout(20):
        while (found := await ctx.outbox.deliveries(question.ref)) == [] or any(
            each.status is DeliveryStatus.QUEUED for each in found
        ):
            await asyncio.sleep(0.01)
    assert {each.channel for each in found} == set(CHANNELS) - {"webpush"}
    ann = await ctx.directory.find_person(workspace, "ann")
    assert ann is not None
    link = await issue_question_link(ctx, question, ann, channel="email", by="root", lasts=timedelta(days=1))
    assert link is not None
    return Place(question, {**tokens, "link": link.url.rpartition("/")[2]})


def digest(path: Path) -> dict[str, str]:
    """What is in every table."""
    with closing(sqlite3.connect(path)) as look:
        names = [name for (name,) in look.execute("select name from sqlite_master where type = 'table'")]
        return {
            name: hashlib.sha256(
                repr(sorted(map(repr, look.execute(f'select * from "{name}"')))).encode()  # noqa: S608 -- names from the file
            ).hexdigest()
            for name in names
            if name not in NOT_STATE and not name.startswith("search_")
        }


def credentials(place: Place) -> list[dict[str, str]]:
    """Nothing, and everything that anybody has, as a program and as a browser would send it."""
    found: list[dict[str, str]] = [{}]
    for token in place.tokens.values():
        found.append({"authorization": f"Bearer {token}"})
        found.append({"cookie": f"__Host-handraise={token}", "sec-fetch-site": "same-origin"})
    return found


def bodies(question: Question) -> dict[str, tuple[str, bytes]]:
    """What each channel would be sent to approve this question, but for its proof that it is genuine."""
    id_, value = question.id, {"decision": "approve"}
    where = {"recipient": "ann", "id": "main"}
    slack = {
        "type": "block_actions",
        "user": {"id": SLACK, "team_id": "T0"},
        "actions": [{"action_id": "approve", "value": json.dumps([MINE, id_])}],
    }
    found = {
        "webhook": {"workspace": question.workspace, "address": where, "question": id_, "value": value},
        "slack": slack,
        "discord": {"type": 3, "id": "1", "member": {"user": {"id": DISCORD}}, "data": {"custom_id": id_}},
        "teams": {"type": "invoke", "from": {"aadObjectId": TEAMS}, "value": {"action": {"data": value}}},
        "telegram": {
            "update_id": 1,
            "callback_query": {"id": "1", "from": {"id": TELEGRAM}, "data": id_},
        },
        "webpush": {"endpoint": "https://push.example/1", "keys": {"p256dh": "x", "auth": "x"}},
    }
    made = {name: ("application/json", json.dumps(body).encode()) for name, body in found.items()}
    made["email"] = ("message/rfc822", b"From: ann@example.org\r\nTo: reply@example.org\r\n\r\napprove\r\n")
    return made


async def test_every_channel_is_swept(everything: Everything) -> None:
    assert set(everything.ctx.channels) == set(CHANNELS)


@promise("P8", "P11")
@pytest.mark.parametrize("channel", CHANNELS)
async def test_no_credential_opens_the_door_of_a_channel(
    client: httpx2.AsyncClient, path: Path, mine: Place, channel: str
) -> None:
    """What a channel takes is what its other end has signed; who one is otherwise does not matter."""
    before = digest(path)
    for kind, body in bodies(mine.question).values():
        for headers in credentials(mine):
            client.cookies.clear()
            response = await client.post(
                INBOUND.format(channel), content=body, headers={**headers, "content-type": kind}
            )
            assert response.status_code == (404 if channel in NO_DOOR else 401), response.text
            assert b"zqxj" not in response.content
    assert digest(path) == before


@pytest.mark.parametrize("channel", [*CHANNELS, "nothing", "%2e%2e", "slack%00"])
async def test_nothing_but_a_post_does_anything_at_the_door_of_a_channel(
    client: httpx2.AsyncClient, path: Path, mine: Place, channel: str
) -> None:
    before = digest(path)
    for method in METHODS:
        for headers in credentials(mine):
            client.cookies.clear()
            response = await client.request(method, INBOUND.format(channel), headers=headers)
            assert response.status_code in (404, 405)
    assert digest(path) == before


@pytest.mark.only_proof_of("no page changes anything if a program fetches it")
async def test_looking_at_any_page_changes_nothing(
    client: httpx2.AsyncClient, everything: Everything, path: Path, mine: Place
) -> None:
    """With any credential, also in the address, and with an answer in the query, as scanners of mails fetch it."""
    before, seen = digest(path), 0
    query = {"v": "approve", "decision": "approve", "do": "approve", "answer": "approve"}
    for route in pages(everything.ctx):
        for method in ("GET", "HEAD", "OPTIONS"):
            for headers in credentials(mine):
                client.cookies.clear()
                ids = {"question_id": mine.question.id, "token": mine.tokens["link"], "channel": "slack"}
                place = route.path.replace(":path}", "}").format_map(defaultdict(lambda: "x", ids))
                response = await client.request(method, place, params=query, headers=headers)
                assert response.status_code < 500
                seen += 1
    assert seen > 200
    assert digest(path) == before


@promise("P8", "P11")
async def test_no_page_does_anything_for_an_agent(
    client: httpx2.AsyncClient, everything: Everything, path: Path, mine: Place
) -> None:
    before = digest(path)
    form = {"v": "approve", "decision": "approve", "do": "approve"}
    for route in pages(everything.ctx):
        for headers in credentials(Place(mine.question, {"agent": mine.tokens["agent"]})):
            client.cookies.clear()
            place = route.path.replace(":path}", "}").format_map(
                defaultdict(lambda: "x", question_id=mine.question.id)
            )
            response = await client.post(place, data=form, headers=headers)
            assert response.status_code < 500
    assert digest(path) == before


@promise("P8")
async def test_what_is_genuine_in_one_workspace_does_nothing_in_another(
    client: httpx2.AsyncClient, path: Path, mine: Place, theirs: Place
) -> None:
    """Both have an address of the same name with the same secret: only the workspace tells them apart."""
    before = digest(path)
    for number, question_id in enumerate((theirs.question.id, "nowhere")):
        body = json.dumps(
            {
                "workspace": MINE,
                "address": {"recipient": "ann", "id": "main"},
                "question": question_id,
                "value": {"decision": "approve"},
            }
        ).encode()
        headers = signed(f"m-{number}", body, [WEBHOOK_KEY], now=time.time())
        response = await client.post(INBOUND.format("webhook"), content=body, headers=headers)
        assert (response.status_code, b"zqxj" in response.content) == (404, False)
    assert mine.question.id != theirs.question.id
    assert digest(path) == before
