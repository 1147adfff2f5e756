"""The agent's own chat as a channel: from the question to the resumed asker, over a restart, and beside its agents."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from handraise import Answered, Approval, Option, Status
from handraise.channels.chat import Chat
from handraise.channels.inbound_replies import Replies
from handraise.conversations import MemoryChannel
from handraise.model.deliveries import DeliveryStatus
from handraise.model.identities import Role
from handraise.model.json_values import Json, digest
from handraise.model.provenance import Provenance
from handraise.model.routing import Routing
from handraise.ports.channel import NotSent
from handraise.server import ServerContext
from handraise.testing import ManualClock
from handraise.testing.contract.channel import ChannelContract, a_question
from tests.channels.chat_server import Wire, ask, becomes, opened, outcome, put, reference_in, reply
from tests.samples import ON_DISK

WITHIN = 10.0
NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in
ROOM = "ops-room"


class TestContract(ChannelContract):
    shows = True
    reports = True

    @pytest.fixture
    def peer(self) -> Wire:
        wire = Wire()
        wire.gone.add("gone")
        return wire

    @pytest.fixture
    def channel(self, peer: Wire) -> Chat:
        return Chat(peer, NOBODY)

    @pytest.fixture
    def to(self) -> Json:
        return {"conversation": "thread-9"}

    @pytest.fixture
    def dead(self) -> Json:
        return {"conversation": "gone"}

    async def test_what_the_chat_raised_is_not_told(self, channel: Chat, dead: Json) -> None:
        with pytest.raises(NotSent) as failed:
            await channel.send(self.message(channel, dead, a_question()))
        assert "hunter2" not in str(failed.value)

    async def test_a_line_of_an_argument_cannot_pass_for_another_argument(
        self, channel: Chat, peer: Wire, to: Json
    ) -> None:
        form = Approval.of("mail", {"body": "Hello\ndry_run: true", "to\ndry_run": "ann", "all": True})
        await channel.send(self.message(channel, to, a_question(form)))
        [(_, text)] = peer.sent
        assert "│ body (text):\n│ │ Hello\n│ │ dry_run: true\n" in text
        assert "│ all: true\n" in text
        assert not any(line.startswith("│ dry_run") for line in text.split("\n"))


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def ctx(wire: Wire) -> AsyncIterator[ServerContext]:
    async with opened(wire) as ctx:
        yield ctx


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_from_the_question_to_the_resumed_asker_over_a_restart(empty_address: str) -> None:
    before, after = Wire(), Wire()
    async with opened(before, empty_address) as ctx:
        question = await ask(ctx, choices=["Blue-green", "Canary"])
        [text] = before.sent_to("thread-9")
        assert text == (
            "agent asks you to choose one:\n"
            "│ Which strategy?\n"
            "│ 1. Blue-green\n"
            "│ 2. Canary\n"
            "Reply here: write the number or the name of one.\n"
            "To have it changed and asked again, write “send back:” and what is to be changed.\n"
            f"Or open it: https://desk.example/questions/{question.id}"
        )
    async with opened(after, empty_address) as ctx:
        waiting = asyncio.create_task(outcome(ctx, question))
        assert await reply(ctx, "I do not know") == (
            "misfit",
            "I cannot take that as an answer: reply with the number or the name of an option.",
        )
        assert await reply(ctx, "canary") == ("taken", "Thank you, your answer was recorded.")
        ended = await waiting
        assert isinstance(ended, Answered)
        assert (ended.value, ended.by, ended.channel) == ("Canary", "ann", "chat")
        assert ended.evidence == "client-asserted"
        assert ((await ctx.desk.history(question.id))[-1].data or {})["shown_digest"] == digest(text)
        await becomes(ctx, question, DeliveryStatus.UPDATED)
        assert after.sent_to("thread-9") == [
            "Answered by ann.\n│ Canary\nagent had asked:\n│ Which strategy?"
        ]
    assert len(before.sent) == 1


async def test_an_answer_given_elsewhere_is_told_in_the_chat(ctx: ServerContext, wire: Wire) -> None:
    question = await ask(ctx, form=bool)
    await ctx.desk.answer(question.id, False, by="ann", provenance=Provenance(channel="web"))
    await becomes(ctx, question, DeliveryStatus.UPDATED)
    assert wire.sent_to("thread-9")[-1].startswith("Answered by ann.\n│ No\n")
    assert await reply(ctx, "yes") is None  # it is for the agent again


async def test_a_fixed_conversation_is_told_of_questions_that_belong_to_none(
    ctx: ServerContext, wire: Wire
) -> None:
    await put(ctx, "ann", "U-ann", {"conversation": "her-own"})
    question = await ask(ctx, form=bool, conversation=None)
    assert len(wire.sent_to("her-own")) == 1
    assert await reply(ctx, "yes") is None
    assert await reply(ctx, "yes", where="her-own") == ("taken", "Thank you, your answer was recorded.")
    assert (await ctx.desk.get(question.id)).status is Status.ANSWERED


async def test_a_question_that_belongs_to_no_conversation_reaches_nobody_and_says_so(
    ctx: ServerContext, wire: Wire
) -> None:
    question = await ctx.desk.post("Which?", recipients=["ann"])
    await becomes(ctx, question, DeliveryStatus.FAILED)
    assert (await ctx.desk.get(question.id)).unreached_at is not None
    assert wire.sent == []


async def test_a_chat_that_fails_is_tried_again(ctx: ServerContext, wire: Wire) -> None:
    wire.gone.add("thread-9")
    question = await ctx.desk.post("Which?", recipients=["ann"], conversation="thread-9")
    async with asyncio.timeout(WITHIN):
        while not any(each.tries for each in await ctx.outbox.deliveries(question.ref)):
            await asyncio.sleep(0.01)
    await becomes(ctx, question, DeliveryStatus.QUEUED)
    assert (await ctx.desk.get(question.id)).unreached_at is None


async def test_where_several_wait_the_one_that_is_meant_is_named(ctx: ServerContext, wire: Wire) -> None:
    first = await ask(ctx, "First?", form=bool)
    second = await ask(ctx, "Second?", form=bool)
    said = await reply(ctx, "yes")
    assert said is not None
    kind, text = said
    assert kind == "misfit"
    lines = text.splitlines()
    assert lines[0].startswith("2 questions wait here.")
    references = {line.split()[1]: line.split()[0] for line in lines[1:]}
    assert await reply(ctx, f"{references['Second?'].upper()}: no") == (
        "taken",
        "Thank you, your answer was recorded.",
    )
    ended = await outcome(ctx, second)
    assert isinstance(ended, Answered)
    assert ended.value is False
    assert (await ctx.desk.get(first.id)).outcome is None
    assert await reply(ctx, "yes") == ("taken", "Thank you, your answer was recorded.")
    del wire


async def test_in_a_conversation_that_others_share_only_a_reference_makes_a_reply(
    ctx: ServerContext, wire: Wire
) -> None:
    await put(ctx, "group:ops", "room", {"conversation": ROOM})
    question = await ask(ctx, "Where?", form=str, recipients=["group:ops"], conversation=None)
    [text] = wire.sent_to(ROOM)
    reference = reference_in(text)
    assert await reply(ctx, "lunch, anybody?", by="U-bob", where=ROOM) is None
    assert await reply(ctx, f"{reference} eu", by="U-eve", where=ROOM) is None
    assert await reply(ctx, f"{reference} eu", by="U-bob", where=ROOM) == (
        "taken",
        "Thank you, your answer was recorded.",
    )
    ended = await outcome(ctx, question)
    assert isinstance(ended, Answered)
    assert (ended.value, ended.by) == ("eu", "bob")
    assert ((await ctx.desk.history(question.id))[-1].data or {})["shown_digest"] == digest(text)


async def test_the_same_text_twice_is_one_reply_and_never_the_reply_to_another(ctx: ServerContext) -> None:
    first = await ask(ctx, "First?", form=bool)
    assert (await reply(ctx, "yes", id="m-same"))[0] == "taken"
    assert await reply(ctx, "yes", id="m-same") is None
    second = await ask(ctx, "Second?", form=bool)
    assert (await reply(ctx, "yes", id="m-same"))[0] == "misfit"
    assert (await ctx.desk.get(second.id)).outcome is None
    assert (await ctx.desk.get(first.id)).status is Status.ANSWERED


async def test_an_action_is_decided_here_only_where_it_was_shown_in_full(
    ctx: ServerContext, wire: Wire
) -> None:
    small = Approval.of("deploy", {"version": "1.2.3", "note": "line\nline"})
    question = await ask(ctx, form=small)
    [text] = wire.sent_to("thread-9")
    for line in ("│ deploy", '│ version: "1.2.3"', "│ note (text):", "│ │ line"):
        assert line in text.splitlines()
    assert (await reply(ctx, "approve"))[0] == "taken"
    ended = await outcome(ctx, question)
    assert isinstance(ended, Answered)
    for form in (
        Approval.of("drop", {"table": "users"}, risk="high"),
        Approval.of("write", {"text": "line\n" * 5_000}),
    ):
        question = await ask(ctx, "May I?", form=form)
        latest = wire.sent_to("thread-9")[-2:]  # that the one before was withdrawn may arrive after it
        assert any("This is decided on its page: https://desk.example/" in each for each in latest)
        assert await reply(ctx, "approve") == ("misfit", "That is decided on its page, in the inbox.")
        assert (await ctx.desk.get(question.id)).outcome is None
        await ctx.desk.withdraw(question.id)


async def test_actions_that_came_together_are_decided_on_their_pages(wire: Wire) -> None:
    clock = ManualClock()
    async with opened(wire, clock=clock) as ctx:
        policy = Routing.model_validate({"anybody": {"per_hour": 1}})
        await ctx.outbox.put_routing("default", policy.model_dump(mode="json", exclude_defaults=True))
        await ask(ctx, "First?", form=bool)
        await reply(ctx, "yes")
        asked = [
            await ctx.desk.post(
                f"Pay {name}?",
                form=Approval.of("pay", {"to": name}),
                recipients=["ann"],
                conversation="thread-9",
            )
            for name in ("Ada", "Bea")
        ]
        for each in asked:
            await becomes(ctx, each, DeliveryStatus.QUEUED)
        assert await reply(ctx, "approve") is None  # nobody was told of any yet
        clock.advance(timedelta(hours=1))
        for each in asked:
            await becomes(ctx, each, DeliveryStatus.SENT)
        bundle = wire.sent_to("thread-9")[-1].splitlines()
        assert bundle[0].startswith("2 questions wait for an answer.")
        reference = bundle[bundle.index("│ Pay Ada?") - 1].split()[0]
        assert await reply(ctx, f"{reference} approve") == (
            "misfit",
            "That is decided on its page, in the inbox.",
        )
        assert [(await ctx.desk.get(each.id)).outcome for each in asked] == [None, None]


async def test_whoever_asks_cannot_answer(ctx: ServerContext, wire: Wire) -> None:
    await ctx.directory.put_person("default", "zoe", name="zoe", email=None, role=Role.MEMBER)
    await put(ctx, "zoe", "U-zoe", {"conversation": "*"})
    desk = ctx.desk.scoped(asker="zoe")
    question = await desk.post("Which?", form=bool, recipients=["ann", "zoe"], conversation="thread-9")
    await becomes(ctx, question, DeliveryStatus.SENT)
    reference = reference_in(wire.sent_to("thread-9")[-1])
    assert await reply(ctx, f"{reference} yes", by="U-zoe") is None
    assert (await ctx.desk.get(question.id)).outcome is None
    assert (await reply(ctx, f"{reference} yes", by="U-ann"))[0] == "taken"


async def test_two_who_are_asked_in_one_conversation_are_told_once(ctx: ServerContext, wire: Wire) -> None:
    question = await ask(ctx, form=str, recipients=["ann", "bob"])
    [text] = wire.sent_to("thread-9")
    assert await reply(ctx, "lunch, anybody?", by="U-bob") is None
    assert (await reply(ctx, f"{reference_in(text)} eu", by="U-bob"))[0] == "taken"
    ended = await outcome(ctx, question)
    assert isinstance(ended, Answered)
    assert (ended.value, ended.by) == ("eu", "bob")


async def test_a_thousand_texts_that_are_nobodys_answer_leave_no_trace(ctx: ServerContext) -> None:
    question = await ask(ctx, form=bool, recipients=["ann"])
    chance = random.Random(7)
    people = ["U-bob", "U-eve", "ann", "", "U-ann ", "u-ann", "group:ops", "*", "\x00", "U-" + "n" * 400]
    places = ["thread-9", "thread-8", "*", "", "thread-9 ", "\x00"]
    texts = ["yes", "#0000 yes", "approve", "", "\x00", "yes" * 999, f"#{'f' * 4}: yes"]
    for number in range(1_000):
        who, where = chance.choice(people), chance.choice(places)
        assert await reply(ctx, chance.choice(texts), by=who, where=where) is None
        if number % 100 == 0:
            assert await reply(ctx, "yes", workspace="another") is None
    found = await ctx.desk.get(question.id)
    assert (found.status, found.attempts) == (Status.PENDING, 0)
    assert (await reply(ctx, "yes"))[0] == "taken"


async def test_rules_of_a_workspace_count_for_the_chat_too(ctx: ServerContext, wire: Wire) -> None:
    policy = Routing.model_validate({"rules": [{"recipient": "ann", "channels": ["email"]}]})
    await ctx.outbox.put_routing("default", policy.model_dump(mode="json", exclude_defaults=True))
    question = await ctx.desk.post("Which?", recipients=["ann"], conversation="thread-9")
    other = await ask(ctx, "And which?", recipients=["bob"])
    assert await ctx.outbox.deliveries(question.ref) == []
    assert [text.splitlines()[1] for text in wire.sent_to("thread-9")] == ["│ And which?"]
    del other


async def test_however_long_it_is_the_end_says_what_to_reply_and_where(
    ctx: ServerContext, wire: Wire
) -> None:
    options = [Option(id=f"{n}", label=f"{n} " + "x" * 250, description="y" * 290) for n in range(20)]
    question = await ask(ctx, "z" * 9_000, choices=options)
    assert wire.sent_to("thread-9")[-1].splitlines()[-4:] == [
        "… The rest is on the page.",
        "Reply here: write the number or the name of one.",
        "To have it changed and asked again, write “send back:” and what is to be changed.",
        f"Or open it: https://desk.example/questions/{question.id}",
    ]


def test_nobody_is_asked_on_a_channel_where_nobody_can_answer() -> None:
    with pytest.raises(ValueError, match="nobody can answer on 'timer'"):
        Chat(MemoryChannel("timer", is_trigger=True), NOBODY)


async def test_a_conversation_goes_on_in_the_chat_and_an_approval_covers_it(
    ctx: ServerContext, wire: Wire
) -> None:
    question = await ask(ctx, "Go?", form=Approval.of("deploy"), replies="program")
    assert "begin your reply with “ask:”" in wire.sent_to("thread-9")[-1]
    assert (await reply(ctx, "approve it, or not?"))[1].startswith("That decides nothing.")
    assert await reply(ctx, "ask: why now?", by="U-bob") is None
    assert await ctx.desk.thread(question.id) == ()
    assert await reply(ctx, "ask: why now?") == (
        "taken",
        "The agent was asked. You are told when it replies.",
    )
    kind, text = await reply(ctx, "approve")
    assert (kind, f"https://desk.example/questions/{question.id}" in text) == ("moved", True)
    await ctx.desk.reply(question.id, "Green\nReply here: approve")
    async with asyncio.timeout(WITHIN):
        while len(wire.sent_to("thread-9")) < 2:
            await asyncio.sleep(0.01)
    await becomes(ctx, question, DeliveryStatus.SENT)
    shown = wire.sent_to("thread-9")[-1]
    assert "The agent replied:\n│ Green\n│ Reply here: approve\n" in shown
    assert "ann asked the agent:\n│ why now?\n" in shown
    assert (await reply(ctx, "approve"))[0] == "taken"
    assert (await ctx.desk.history(question.id))[-1].data["seen"] == 2


async def test_notes_are_not_shown_where_the_agent_reads_and_their_approval_is_given_elsewhere(
    ctx: ServerContext, wire: Wire
) -> None:
    question = await ask(ctx, "Go?", form=Approval.of("deploy"), recipients=["ann", "bob"])
    await ctx.desk.note(question.id, "This agent was wrong before", by="bob")
    async with asyncio.timeout(WITHIN):
        while len(wire.sent_to("thread-9")) < 2:
            await asyncio.sleep(0.01)
    shown = wire.sent_to("thread-9")[-1]
    assert "wrong before" not in shown
    assert "The conversation has 1 message: read it on the page." in shown
    assert f"This is decided on its page: https://desk.example/questions/{question.id}" in shown
