"""Answers by webhook: from the question to the resumed asker, and whatever is not genuine changes nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from standardwebhooks import Webhook as Reference

from handraise import Answered, Approval, Choice, Confirm, Declined, Timeline
from handraise.channels.webhook import Webhook
from handraise.desk.local_desk import LocalDesk
from handraise.events import EventKind
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.outcomes import Returned
from handraise.model.webhook_signatures import secret_bytes, signed
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from handraise.testing import ManualClock
from support.webhook_receiver import Got, Receiver, Says, receiving
from tests.samples import ON_DISK
from tests.tiers import drawn, sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHIN = 10.0
INBOUND = "/v1/channels/webhook/inbound"
MINUTE = 60


def secret(number: int = 1) -> str:
    return "whsec_" + base64.b64encode(bytes([number]) * 32).decode()


@asynccontextmanager
async def opened(store: str, clock: ManualClock | None = None) -> AsyncIterator[ServerContext]:
    settings = ServerSettings(
        url=store,
        webhooks=True,
        webhook_allow_private=["127.0.0.0/8"],
        sign_in_limit="1000000/second",
        poll_interval=0.1,
    )
    async with open_server(settings, clock=clock) as ctx:
        yield ctx


@asynccontextmanager
async def calling(ctx: ServerContext) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(create_app(ctx))
    async with httpx2.AsyncClient(transport=transport, base_url=ctx.settings.base_url) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ctx() -> AsyncIterator[ServerContext]:
    async with opened("memory:") as ctx:
        yield ctx


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(ctx: ServerContext) -> AsyncIterator[httpx2.AsyncClient]:
    async with calling(ctx) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def desk(ctx: ServerContext, receiver: Receiver, workspace: str) -> LocalDesk:
    return await furnished(ctx, receiver, workspace)


async def furnished(ctx: ServerContext, receiver: Receiver, workspace: str) -> LocalDesk:
    """A workspace in which three people have a system each."""
    for number, person in enumerate(("ann", "bob", "cid"), 1):
        await ctx.directory.put_person(workspace, person, name=person, email=None, role=Role.MEMBER)
        await put(ctx, workspace, person, {"url": receiver.url, "secret": secret(number)})
    return ctx.desk.scoped(workspace, asker="bot")


async def put(ctx: ServerContext, workspace: str, recipient: str, to: Json) -> None:
    await ctx.outbox.put_address(
        Address(workspace=workspace, recipient=recipient, channel="webhook", id="main", to=to)
    )


def content(workspace: str, question_id: str, recipient: str = "ann", **rest: Any) -> bytes:
    address = {"recipient": recipient, "id": "main"}
    return json.dumps({"workspace": workspace, "address": address, "question": question_id, **rest}).encode()


def headers(body: bytes, name: str = "m-1", *, key: str | None = None, age: float = 0.0) -> dict[str, str]:
    raw = secret_bytes(key or secret())
    assert raw is not None
    return signed(name, body, [raw], now=time.time() - age)


async def post(client: httpx2.AsyncClient, body: bytes, given: dict[str, str]) -> httpx2.Response:
    raw = [(name.encode(), text.encode("latin-1")) for name, text in given.items()]
    return await client.post(INBOUND, content=body, headers=raw)


async def told(desk: LocalDesk, question_id: str) -> list[EventKind]:
    """What happened to a question, but for whether anybody could be reached."""
    events = await desk.history(question_id)
    return [each.kind for each in events if each.kind is not EventKind.UNREACHED]


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_from_the_question_to_the_resumed_asker_and_back(
    address: str, receiver: Receiver, workspace: str
) -> None:
    async with opened(address) as ctx, calling(ctx) as client:
        desk = await furnished(ctx, receiver, workspace)
        question = await desk.post("Which?", form=Choice.of("Canary", "Rolling"), recipients=["ann"])
        waiting = asyncio.create_task(desk.wait(question.id, timeout=WITHIN))
        asked = read(await got(receiver, question.id, "asked"))
        assert asked["data"]["link"] == f"{ctx.settings.base_url}/questions/{question.id}"
        body = content(asked["data"]["question"]["workspace"], asked["subject"], value="Rolling")
        taken = await post(client, body, headers(body))
        assert (taken.status_code, taken.json()["kind"]) == (200, "taken")
        outcome = await asyncio.wait_for(waiting, WITHIN)
        assert isinstance(outcome, Answered)
        assert (outcome.value, outcome.by) == ("Rolling", "ann")
        assert (outcome.channel, outcome.evidence) == ("webhook", "webhook-signature")
        ended = read(await got(receiver, question.id, "settled"))
        assert ended["id"] == f"{asked['id']}-settled"
        assert ended["data"]["question"]["outcome"]["value"] == "Rolling"
        async with asyncio.timeout(WITHIN):
            while [each.status.value for each in await ctx.outbox.deliveries(question.ref)] != ["updated"]:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("address", ["memory"], indirect=True)
async def test_a_system_that_was_reminded_is_told_once_that_the_question_has_ended(
    address: str, receiver: Receiver, workspace: str
) -> None:
    async with opened(address) as ctx:
        desk = await furnished(ctx, receiver, workspace)
        timeline = Timeline(remind=(timedelta(seconds=0.1),))
        question = await desk.post("Which?", recipients=["ann"], timeline=timeline)
        await got(receiver, question.id, "reminded")
        await desk.answer(question.id, "Rolling", by="ann")
        async with asyncio.timeout(WITHIN):
            while [each.status.value for each in await ctx.outbox.deliveries(question.ref)] != [
                "updated"
            ] * 2:
                await asyncio.sleep(0.01)
        events = [json.loads(each.body) for each in receiver.got]
        kinds = [each["type"].rpartition(".")[2] for each in events if each["subject"] == question.id]
        assert kinds == ["asked", "reminded", "settled"]


async def got(receiver: Receiver, question_id: str, kind: str) -> Got:
    """What came about a question, once it has."""
    async with asyncio.timeout(WITHIN):
        while True:
            for each in receiver.got:
                event = json.loads(each.body)
                if (event["subject"], event["type"]) == (question_id, f"dev.handraise.question.{kind}"):
                    return each
            await asyncio.sleep(0.01)


def read(request: Got) -> Any:
    """The event in a request that the reference library lets pass."""
    return Reference(secret()).verify(request.body, request.headers)


async def test_what_waits_while_a_secret_is_changed_is_sent_with_the_new_one(workspace: str) -> None:
    refusing, clock = True, ManualClock()

    async def busy(request: Got) -> Says:
        del request
        return Says(503 if refusing else 204, {"retry-after": "1"})

    async with opened("memory:", clock) as ctx, receiving(busy) as receiver:
        desk = await furnished(ctx, receiver, workspace)
        question = await desk.post("Which?", recipients=["ann"])
        first = await got(receiver, question.id, "asked")
        await put(ctx, workspace, "ann", {"url": receiver.url, "secret": secret(9)})
        refusing = False
        async with asyncio.timeout(WITHIN):
            while len(receiver.got) < 2:
                clock.advance(timedelta(seconds=5))
                await asyncio.sleep(0.05)
    again = receiver.got[1]
    assert (again.body, again.headers["webhook-id"]) == (first.body, first.headers["webhook-id"])
    Reference(secret(9)).verify(again.body, again.headers)


class TestGenuine:
    async def test_somebody_may_decline(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("What?")
        body = content(workspace, question.id, decline=True, reason="not mine")
        assert (await post(client, body, headers(body))).status_code == 200
        outcome = (await desk.get(question.id)).outcome
        assert isinstance(outcome, Declined)
        assert (outcome.by, outcome.reason, outcome.evidence) == ("ann", "not mine", "webhook-signature")

    async def test_what_does_not_fit_is_told_why_and_the_question_waits(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("a", "b"))
        body = content(workspace, question.id, value="c")
        told = await post(client, body, headers(body))
        assert (told.status_code, told.json()["kind"]) == (422, "misfit")
        assert told.json()["text"].startswith("That does not fit: ")
        assert (await desk.get(question.id)).outcome is None

    async def test_who_comes_too_late_is_told_so(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Which?")
        await desk.answer(question.id, "this", by="bob")
        body = content(workspace, question.id, value="that")
        late = await post(client, body, headers(body))
        assert (late.status_code, late.json()["kind"]) == (409, "late")
        assert "this" not in late.text

    async def test_what_reached_everybody_is_answered_once_by_each_with_their_own_secret(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), quorum=2)
        for number, person in enumerate(("ann", "bob"), 1):
            body = content(workspace, question.id, person, value=True)
            assert (await post(client, body, headers(body, key=secret(number)))).status_code == 200
        assert isinstance((await desk.get(question.id)).outcome, Answered)

    async def test_while_a_secret_is_changed_both_are_good_and_then_one(
        self,
        client: httpx2.AsyncClient,
        ctx: ServerContext,
        desk: LocalDesk,
        receiver: Receiver,
        workspace: str,
    ) -> None:
        both: dict[str, Json] = {"url": receiver.url, "secret": secret(9), "previous_secret": secret(1)}
        await put(ctx, workspace, "ann", both)
        for key in (secret(1), secret(9)):
            question = await desk.post("Go?")
            body = content(workspace, question.id, value="yes")
            assert (await post(client, body, headers(body, key, key=key))).status_code == 200
        await put(ctx, workspace, "ann", {"url": receiver.url, "secret": secret(9)})
        question = await desk.post("Go?")
        body = content(workspace, question.id, value="yes")
        assert (await post(client, body, headers(body, "m-2", key=secret(1)))).status_code == 401

    async def test_any_of_several_signatures_will_do(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Go?")
        body = content(workspace, question.id, value="yes")
        given = headers(body)
        others = "v1a,AAAA v1,AAAA v2,AAAA nonsense , v1, v1"
        given["webhook-signature"] = f"{others} {given['webhook-signature']}"
        assert (await post(client, body, given)).status_code == 200

    @pytest.mark.parametrize("case", ["a group", "anyone", "removed", "not asked", "nowhere", "high risk"])
    async def test_one_that_cannot_be_taken_says_no_more(
        self,
        client: httpx2.AsyncClient,
        ctx: ServerContext,
        desk: LocalDesk,
        receiver: Receiver,
        workspace: str,
        case: str,
    ) -> None:
        form = Approval.of("drop", {"table": "users"}, risk="high") if case == "high risk" else Confirm()
        question = await desk.post("Go?", form=form, recipients=["bob"] if case == "not asked" else [])
        recipient = {"a group": "group:ops", "anyone": "*"}.get(case, "ann")
        if recipient != "ann":
            await ctx.directory.put_group(workspace, "ops", ["ann"])
            await put(ctx, workspace, recipient, {"url": receiver.url, "secret": secret()})
        if case == "removed":
            await ctx.directory.remove_person(workspace, "ann")
        question_id = "nowhere" if case == "nowhere" else question.id
        value = {"decision": "approve"} if case == "high risk" else True
        body = content(workspace, question_id, recipient, value=value)
        refused = await post(client, body, headers(body))
        assert (refused.status_code, refused.json()["kind"]) == (404, "refused")
        assert ("high risk" in refused.json()["text"]) == (case == "high risk")
        assert await told(desk, question.id) == [EventKind.ASKED]

    async def test_a_thousand_replays_are_one_answer_one_attempt_one_vote(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        answered = await desk.post("Which?", form=Choice.of("a", "b"))
        tried = await desk.post("Which?", form=Choice.of("a", "b"), max_attempts=3)
        voted = await desk.post("Go?", form=Confirm(), quorum=3)
        bodies = [
            content(workspace, answered.id, value="a"),
            content(workspace, tried.id, value="c"),
            content(workspace, voted.id, value=True),
        ]
        for place, body in enumerate(bodies):
            given = headers(body, f"m-{place}")
            said = [await post(client, body, given) for _ in range(sized(gate=20, nightly=330))]
            said += await asyncio.gather(*(post(client, body, given) for _ in range(20)))
            assert len({(each.status_code, each.content) for each in said}) == 1
        assert await told(desk, answered.id) == [EventKind.ASKED, EventKind.ANSWERED]
        assert ((await desk.get(tried.id)).attempts, (await desk.get(tried.id)).outcome) == (1, None)
        assert [vote.by for vote in (await desk.get(voted.id)).votes] == ["ann"]

    async def test_the_first_comers_at_once_are_one_too(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Which?", form=Choice.of("a", "b"), max_attempts=3)
        body = content(workspace, question.id, value="c")
        given = headers(body)
        said = await asyncio.gather(*(post(client, body, given) for _ in range(50)))
        assert {each.status_code for each in said} <= {422, 409}
        assert (await desk.get(question.id)).attempts == 1


class TestForged:
    async def test_of_a_thousand_that_are_not_genuine_none_changes_anything(
        self,
        client: httpx2.AsyncClient,
        desk: LocalDesk,
        ctx: ServerContext,
        receiver: Receiver,
        workspace: str,
    ) -> None:
        question = await desk.post("Pay?", form=Approval.of("pay", {"amount": 1}))
        other = f"{workspace}-2"
        await ctx.directory.put_person(other, "ann", name="ann", email=None, role=Role.MEMBER)
        await put(ctx, other, "ann", {"url": receiver.url, "secret": secret(7)})
        body = content(workspace, question.id, value={"decision": "approve"})
        said = []
        for forged, given in forgeries(body, other):
            response = await post(client, forged, given)
            assert response.status_code in (400, 401), (forged, given)
            assert response.content == b""
            said.append(response.status_code)
        assert len(said) >= sized(gate=140, nightly=1_000)
        assert said.count(401) > len(said) * 2 / 3
        assert await told(desk, question.id) == [EventKind.ASKED]
        # That every part was right but for what was changed: the same once more, as it should be.
        assert (await post(client, body, headers(body))).status_code == 200

    async def test_what_we_sent_ourselves_is_no_answer(
        self, client: httpx2.AsyncClient, desk: LocalDesk, receiver: Receiver
    ) -> None:
        question = await desk.post("Go?", form=Confirm(), recipients=["ann"])
        ours = await got(receiver, question.id, "asked")
        given = {name: text for name, text in ours.headers.items() if name.startswith("webhook-")}
        assert (await post(client, ours.body, given)).status_code == 400
        assert (await desk.get(question.id)).outcome is None

    @pytest.mark.parametrize(
        "change",
        [
            {},
            {"value": 1, "decline": True},
            {"value": 1, "send_back": "x"},
            {"decline": True, "not_for_me": True},
            {"send_back": "x", "reason": "y"},
            {"send_back": 7},
            {"not_for_me": False},
            {"decline": False},
            {"decline": 1},
            {"value": 1, "reason": "x"},
            {"value": 1, "by": "bob"},
            {"value": 1, "evidence": "session"},
            {"value": 1, "workspace": 7},
            {"value": 1, "address": "ann"},
            {"value": 1, "address": {"recipient": "ann"}},
            {"value": 1, "question": None},
            {"decline": True, "reason": 7},
        ],
        ids=str,
    )
    async def test_what_is_signed_and_makes_no_sense_is_refused(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str, change: dict[str, Any]
    ) -> None:
        question = await desk.post("What?")
        body = json.dumps(json.loads(content(workspace, question.id)) | change).encode()
        assert (await post(client, body, headers(body))).status_code == 400
        assert (await desk.get(question.id)).outcome is None

    @pytest.mark.parametrize("name", ["\x00", "\ud800", "x" * 60_000, ""])
    async def test_names_that_nobody_can_have_are_not_genuine(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str, name: str
    ) -> None:
        question = await desk.post("What?")
        for there, recipient in ((name, "ann"), (workspace, name)):
            body = content(there, question.id, recipient, value=1)
            assert (await post(client, body, headers(body))).status_code in (400, 401)

    async def test_a_value_of_any_shape_is_no_more_than_a_misfit(
        self, client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
    ) -> None:
        question = await desk.post("Go?", form=Confirm())
        deep = b"[" * 5_000 + b"]" * 5_000
        for place, text in enumerate((deep, b"NaN", b"1e999", b'"\\ud800"', b'{"a":1,"a":2}', b"null")):
            body = content(workspace, question.id, value=0).replace(b'"value": 0', b'"value": ' + text)
            response = await post(client, body, headers(body, f"m-{place}"))
            assert response.status_code in (400, 422)
        assert (await desk.get(question.id)).outcome is None

    async def test_a_clock_of_ours_that_is_wrong_is_not_the_senders_fault(
        self, ctx: ServerContext, desk: LocalDesk, workspace: str
    ) -> None:
        """Five minutes either way; what is left to either side is for a machine that is slow."""
        channel = ctx.channels["webhook"]
        assert isinstance(channel, Webhook)
        for age, status in ((280, 200), (-299, 200), (301, 401), (-320, 401)):
            question = await desk.post("What?")
            body = content(workspace, question.id, value="x")
            given = headers(body, f"m{age}", age=age)
            assert (await channel.receive(given, body)).status == status


def forgeries(body: bytes, other: str) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Requests that are each wrong in one thing."""
    good = headers(body)
    names = tuple(good)
    for age in (301, 5 * MINUTE + 2, 3_600, 86_400, 10**9, -320, -3_600, -(10**9)):
        yield body, headers(body, age=age)
    for key in (secret(2), secret(3), secret(7), secret(8)):
        yield body, headers(body, key=key)
    for name in names:
        yield body, {each: text for each, text in good.items() if each != name}
        for text in ("", " ", "0", "-1", "1e9", "²", "v1,", "v1", "é", "x" * 4_000, good[name] + "x"):
            yield body, good | {name: text}
    yield body, good | {"webhook-signature": good["webhook-signature"].removeprefix("v1,")}
    yield body, good | {"webhook-signature": good["webhook-signature"].replace("v1,", "v1a,")}
    yield body, good | {"webhook-timestamp": f"+{good['webhook-timestamp']}"}
    yield body, good | {"webhook-timestamp": f"{good['webhook-timestamp']}.0"}
    for junk in (b"", b"{}", b"[]", b"null", b"\xff", b"{" * 70_000, b'"' + b"x" * 200_000 + b'"'):
        yield junk, headers(junk)
    moved = json.loads(body)
    for part, wrong in (("workspace", other), ("workspace", "nowhere")):
        elsewhere = json.dumps(moved | {part: wrong}).encode()
        yield elsewhere, headers(elsewhere)
    for recipient, number in (("bob", "main"), ("nobody", "main"), ("ann", "other"), ("group:ops", "main")):
        elsewhere = json.dumps(moved | {"address": {"recipient": recipient, "id": number}}).encode()
        yield elsewhere, headers(elsewhere)
    for turn in drawn(range(500), 40):
        chance = random.Random(f"7 {turn}")
        changed = bytearray(body)
        changed[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        yield bytes(changed), good
    for turn in drawn(range(500), 40):
        chance = random.Random(f"8 {turn}")
        name = chance.choice(names)
        flipped = bytearray(good[name].encode())
        while True:
            place, bit = chance.randrange(len(flipped)), 1 << chance.randrange(7)
            if 0x20 < flipped[place] ^ bit < 0x7F:
                break
        flipped[place] ^= bit
        yield body, good | {name: flipped.decode()}


async def test_a_system_asks_back_notes_and_approves_what_it_has_shown(
    desk: LocalDesk, receiver: Receiver, client: httpx2.AsyncClient, workspace: str
) -> None:
    question = await desk.post(
        "Go?", form=Approval.of("deploy"), recipients=["ann", "bob"], replies="program"
    )
    asked = json.loads((await got(receiver, question.id, "asked")).body)["data"]
    assert asked["question"]["replies"] == "program"
    assert "thread" not in asked

    async def say(name: str, key: str | None = None, recipient: str = "ann", **said: Any) -> tuple[int, Any]:
        body = content(workspace, question.id, recipient, **said)
        answer = await post(client, body, headers(body, name, key=key))
        return answer.status_code, answer.json().get("kind") if answer.content else None

    assert await say("t-0", ask_back="Why?", value="approve") == (400, None)
    assert await say("t-1", ask_back="Why?", key=secret(2)) == (401, None)
    assert await say("t-2", ask_back="Why?", recipient="cid", key=secret(3)) == (404, "refused")
    assert await say("t-3", note=" ") == (422, "misfit")
    assert await desk.thread(question.id) == ()
    for _ in range(2):
        assert await say("t-4", ask_back="Why?") == (200, "taken")
    assert await say("t-5", note="I doubt it") == (200, "taken")
    await desk.reply(question.id, "Green")
    replied = json.loads((await got(receiver, question.id, "replied")).body)["data"]
    assert (replied["question"]["thread"], replied["question"]["replied"]) == (3, 3)
    assert [(each["kind"], each["by"], each["text"]) for each in replied["thread"]] == [
        ("asked_back", "ann", "Why?"),
        ("noted", "ann", "I doubt it"),
        ("replied", "bot", "Green"),
    ]
    for place, seen in enumerate((None, 0, 2, 4)):
        assert await say(f"t-6{place}", value="approve", seen=seen) == (409, "moved")
    assert await say("t-7", value="approve", seen=-1) == (400, None)
    assert await say("t-8", value="approve", seen=3) == (200, "taken")
    assert (await desk.history(question.id))[-1].data["seen"] == 3


async def test_a_system_sends_back_and_leaves_it_to_others(
    client: httpx2.AsyncClient, desk: LocalDesk, workspace: str
) -> None:
    question = await desk.post(
        "Refund?", form=Approval.of("refund", {"amount": 300}), recipients=["ann", "bob"]
    )

    async def say(
        name: str, *, recipient: str = "ann", key: str | None = None, **what: Any
    ) -> tuple[int, Any]:
        body = content(workspace, question.id, recipient, **what)
        answer = await post(client, body, headers(body, name, key=key))
        return answer.status_code, answer.json().get("kind") if answer.content else None

    deeds: list[dict[str, Any]] = [{"send_back": "Only 30."}, {"not_for_me": True}]
    for number, what in enumerate(deeds):
        assert await say(f"b-{number}", key=secret(2), **what) == (401, None)
        assert await say(f"c-{number}", recipient="cid", key=secret(3), **what) == (404, "refused")
    assert await told(desk, question.id) == [EventKind.ASKED]
    assert await say("s-1", not_for_me=True) == (200, "taken")
    assert [each.person for each in (await desk.get(question.id)).aside] == ["ann"]
    assert await say("s-2", send_back=" ") == (422, "misfit")
    for _ in range(2):
        assert await say("s-3", send_back="Only 30.") == (200, "taken")
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Returned)
    assert (outcome.by, outcome.reason, outcome.evidence) == ("ann", "Only 30.", "webhook-signature")
    assert await told(desk, question.id) == [EventKind.ASKED, EventKind.SET_ASIDE, EventKind.RETURNED]
