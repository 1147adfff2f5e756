"""Notifications by ntfy: what a phone is told, what is never called, and a question's whole way."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pydantic
import pytest

from handraise import Answered, Approval, Choice, Option
from handraise.channels.ntfy import Ntfy, open_ntfy
from handraise.model.deliveries import Address, DeliveryStatus
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice, NotSent
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.testing.contract.channel import (
    AT,
    FORMS,
    HOSTILE,
    HOSTILE_FORMS,
    ChannelContract,
    a_question,
    link_to,
    settled,
)
from support.webhook_receiver import Says
from tests.channels import ntfy_peer
from tests.channels.ntfy_peer import TOKEN, open_ntfy_server
from tests.samples import ON_DISK

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "reach-people-by-ntfy.md"
TOPIC = "ann_8dh2k1"
WITHIN = 10.0


@pytest.fixture
async def server() -> AsyncIterator[ntfy_peer.Ntfy]:
    async with open_ntfy_server() as server:
        server.protected.add(TOPIC)
        yield server


@pytest.fixture
async def ntfy(server: ntfy_peer.Ntfy) -> AsyncIterator[Ntfy]:
    async with open_ntfy(url=server.url, token=TOKEN, allowed=LOOPBACK) as channel:
        yield channel


class TestContract(ChannelContract):
    reports = True

    @pytest.fixture
    def peer(self, server: ntfy_peer.Ntfy) -> ntfy_peer.Ntfy:
        return server

    @pytest.fixture
    def channel(self, ntfy: Ntfy) -> Ntfy:
        return ntfy

    @pytest.fixture
    def to(self) -> Json:
        return {"topic": TOPIC}

    @pytest.fixture
    def dead(self, server: ntfy_peer.Ntfy) -> Json:
        server.silent.add("nobody")
        return {"topic": "nobody"}


def message(*questions: Any, to: Json = None, reason: Any = "asked") -> Message:
    notices = [
        Notice(delivery_id=f"d-{each.id}", question=each, reason=reason, link=link_to(each))
        for each in questions or (a_question(),)
    ]
    to = {"topic": TOPIC} if to is None else to
    return Message(id="d" * 32, workspace="w", channel="ntfy", recipient="ann", to=to, at=AT, notices=notices)


@pytest.mark.parametrize(
    "to",
    [
        {"topic": "a/b"},
        {"topic": ""},
        {"topic": "x" * 65},
        {"topic": "docs"},
        {"topic": "ä"},
        {"topic": "x\n"},
        {"topic": "x", "url": "https://evil.example"},
    ],
)
def test_an_address_is_a_topic_and_nothing_else(ntfy: Ntfy, to: Json) -> None:
    assert ntfy.rate_limit_key(to) is None


async def test_a_notification_can_be_opened_and_not_answered(ntfy: Ntfy, server: ntfy_peer.Ntfy) -> None:
    await ntfy.send(message(a_question(Choice.of("a", "b"))))
    [shown] = server.shown.values()
    assert shown["click"] == link_to(a_question())
    assert shown["actions"] == [
        {"action": "view", "label": "Open", "url": link_to(a_question()), "clear": False}
    ]
    assert (shown["priority"], shown["tags"]) == (3, ["handraise"])


async def test_the_end_takes_the_place_of_the_notification_without_a_sound(
    ntfy: Ntfy, server: ntfy_peer.Ntfy
) -> None:
    question = a_question()
    receipt = await ntfy.send(message(question))
    ended = settled(question, Answered(value=True, at=AT, by="bob"))
    await ntfy.update(message(ended), receipt)
    [shown] = server.shown.values()
    assert shown["title"] == "Answered by bob"
    assert shown["message"].splitlines()[0] == "│ Yes"
    assert shown["priority"] == 2
    assert "actions" not in shown


async def test_the_end_of_one_of_several_leaves_the_others(ntfy: Ntfy, server: ntfy_peer.Ntfy) -> None:
    questions = [a_question(id=f"q-{place}", prompt=f"Which {place}?") for place in range(3)]
    receipt = await ntfy.send(message(*questions))
    ended = message(settled(questions[1], Answered(value=True, at=AT, by="bob")))
    one = Message(
        **{
            name: getattr(ended, name)
            for name in ("workspace", "channel", "recipient", "to", "at", "notices")
        },
        id="e" * 32,
    )
    await ntfy.update(one, receipt)
    several, single = server.shown.values()
    assert several["title"] == "3 questions wait for an answer"
    assert single["title"] == "Answered by bob"


@pytest.mark.parametrize(
    ("changes", "reason", "priority", "tags"),
    [
        ({}, "reminded", 3, ["handraise"]),
        ({}, "escalated", 4, ["handraise"]),
        ({"form": FORMS["high approval"]}, "asked", 4, ["handraise", "warning"]),
    ],
)
async def test_what_cannot_wait_is_louder(
    *,
    ntfy: Ntfy,
    server: ntfy_peer.Ntfy,
    changes: dict[str, Any],
    reason: str,
    priority: int,
    tags: list[str],
) -> None:
    await ntfy.send(message(a_question(**changes), reason=reason))
    [shown] = server.shown.values()
    assert (shown["priority"], shown["tags"]) == (priority, tags)


@pytest.mark.parametrize("kind", [*FORMS, *(f"hostile {kind}" for kind in HOSTILE_FORMS)])
async def test_however_much_is_asked_a_phone_gets_all_of_the_notification(
    ntfy: Ntfy, server: ntfy_peer.Ntfy, kind: str
) -> None:
    form = (HOSTILE_FORMS if kind.startswith("hostile") else FORMS)[kind.removeprefix("hostile ")]
    for text in ('"\\' * 900, "名" * 2_000, "🙂\n" * 200, HOSTILE * 6):
        question = a_question(form, prompt=text, asker=text[:200])
        receipt = await ntfy.send(message(question))
        await ntfy.send(message(*[question] * 50))
        outcome = Answered(value={"other": text}, at=AT, by=text[:200])
        await ntfy.update(message(settled(question, outcome)), receipt)
    assert len(server.taken) == 12  # the peer refuses what is too large
    assert all(len(each.raw) > 500 for each in server.taken)


@pytest.mark.parametrize(
    ("says", "again", "after", "within"),
    [
        (Says(400), False, None, None),
        (Says(413), False, None, None),
        (Says(429, {"retry-after": "7"}), True, 7, None),
        (Says(429), True, None, None),
        (Says(500), True, None, None),
        (Says(507), True, None, None),
        (Says(401), True, None, 3_600),
        (Says(403), True, None, 3_600),
        (Says(302, {"location": "https://evil.example/"}), True, None, 3_600),
    ],
)
async def test_what_ntfy_says_decides_whether_it_is_tried_again(
    *, ntfy: Ntfy, server: ntfy_peer.Ntfy, says: Says, again: bool, after: int | None, within: int | None
) -> None:
    server.failing += [says, says]
    ended = message(settled(a_question(), Answered(value=True, at=AT, by="bob")))
    for call in (ntfy.send(message()), ntfy.update(ended, None)):
        with pytest.raises(NotSent) as failed:
            await call
        found = failed.value
        assert (found.again, found.arrived_perhaps) == (again, False)
        assert found.after == (None if after is None else timedelta(seconds=after))
        assert found.within == (None if within is None else timedelta(seconds=within))
        assert TOKEN not in str(found)


async def test_a_connection_that_ends_without_an_answer_may_have_brought_it(
    ntfy: Ntfy, server: ntfy_peer.Ntfy
) -> None:
    server.failing.append(Says(0))
    with pytest.raises(NotSent) as failed:
        await ntfy.send(message())
    assert failed.value.arrived_perhaps


async def test_a_server_in_a_private_network_is_called_only_where_that_is_named(
    server: ntfy_peer.Ntfy,
) -> None:
    for url in (server.url, "https://127.0.0.1:1", "http://ntfy.sh", "https://ntfy.sh/path", "ftp://ntfy.sh"):
        with pytest.raises(pydantic.ValidationError, match="HANDRAISE_NTFY_URL must be https"):
            ServerSettings(url="memory:", ntfy_url=url)
        with pytest.raises(ValueError, match="may be called"):
            async with open_ntfy(url=url):
                pass
    # A name that leads there is seen when it is called.
    async with open_ntfy(url=f"https://localhost:{server.receiver.port}") as channel:
        with pytest.raises(NotSent, match="must not be called"):
            await channel.send(message())
    assert server.receiver.connections == 0


def test_the_token_hides_itself() -> None:
    settings = ServerSettings(url="memory:", ntfy_url="https://ntfy.sh", ntfy_token=TOKEN)
    assert TOKEN not in repr(settings)


@asynccontextmanager
async def server_with(server: ntfy_peer.Ntfy, store: str, **more: Any) -> AsyncIterator[ServerContext]:
    settings = ServerSettings(
        url=store,
        poll_interval=0.05,
        ntfy_url=server.url,
        ntfy_token=TOKEN,
        ntfy_allow_private=["127.0.0.0/8"],
        public_url="https://desk.example",
        secret="s" * 40,
        **more,
    )
    async with open_server(settings) as ctx:
        await ctx.directory.put_person("default", "ann", name="ann", email=None, role=Role.MEMBER)
        await ctx.outbox.put_address(
            Address(workspace="default", recipient="ann", channel="ntfy", id="phone", to={"topic": TOPIC})
        )
        yield ctx


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_from_the_question_to_the_resumed_asker_over_a_restart(
    empty_address: str, server: ntfy_peer.Ntfy
) -> None:
    async with server_with(server, empty_address) as ctx:
        question = await ctx.desk.post("Which strategy?", choices=["a", "b"], recipients=["ann"])
        await becomes(ctx, question.ref, DeliveryStatus.SENT)
        [shown] = server.shown.values()
        # Whoever runs the ntfy server can read it: the link asks for a sign-in.
        assert shown["click"] == f"https://desk.example/questions/{question.id}"
    async with server_with(server, empty_address) as ctx:
        await ctx.desk.answer(question.id, "b", by="ann")
        outcome = await ctx.desk.wait(question.id, timeout=WITHIN)
        assert isinstance(outcome, Answered)
        await becomes(ctx, question.ref, DeliveryStatus.UPDATED)
    [shown] = server.shown.values()
    assert (shown["title"], shown["message"].splitlines()[0]) == ("Answered by ann", "│ b")


async def test_a_topic_that_refuses_us_for_good_leaves_the_question_unreached(server: ntfy_peer.Ntfy) -> None:
    server.failing += [Says(400)] * 9
    async with server_with(server, "memory:") as ctx:
        question = await ctx.desk.post("Which?", recipients=["ann"])
        await becomes(ctx, question.ref, DeliveryStatus.FAILED)
        assert (await ctx.desk.get(question.id)).unreached_at is not None


async def becomes(ctx: ServerContext, ref: Any, status: DeliveryStatus) -> None:
    async with asyncio.timeout(WITHIN):
        while [each.status for each in await ctx.outbox.deliveries(ref)] != [status]:
            await asyncio.sleep(0.01)


def shown_on_the_page() -> dict[str, Message]:
    at = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
    strategy = a_question(
        Choice.of("Blue-green", Option(id="canary", label="Canary", description="a few at first")),
        asker="deployer",
        asked_at=at,
        steps=(Step(timedelta(hours=8), "expire"),),
    )
    payment = a_question(
        Approval.of("pay", {"to": "Ada Ltd", "amount": 120}, risk="high"),
        asker="deployer",
        prompt="The invoice of October is due.",
    )
    ended = settled(strategy, Answered(value="canary", at=at, by="ann", channel="web"))
    return {"a choice": message(strategy), "an approval": message(payment), "answered": message(ended)}


@pytest.mark.parametrize("name", ["a choice", "an approval", "answered"])
async def test_the_page_shows_what_people_see(ntfy: Ntfy, server: ntfy_peer.Ntfy, name: str) -> None:
    given = shown_on_the_page()[name]
    if given.notices[0].question.outcome is None:
        await ntfy.send(given)
    else:
        await ntfy.update(given, None)
    [shown] = server.shown.values()
    buttons = "".join(f"\n[ {each['label']} ]" for each in shown.get("actions", ()))
    text = f"{shown['title']}\n{shown['message']}{buttons}"
    blocks = re.findall(r"^```text\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert text in blocks, text
