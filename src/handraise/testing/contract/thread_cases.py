"""Threads: people ask back and note, the asker replies, and an approval covers the conversation that its giver saw."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from handraise import (
    AlreadySettled,
    Approval,
    Desk,
    Escalation,
    InvalidQuestion,
    PermissionDenied,
    Question,
    QuestionNotFound,
    Timeline,
)
from handraise.errors import CannotAskBack, InvalidMessage, NothingToReply, ThreadMoved
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import REFUSED, SOON, Backend, ContractFixtures
from handraise.testing.promises import promise

_REFUND = Approval.of("refund", {"amount": 300})
_WRONG_TEXTS: tuple[Any, ...] = ("", " \n\t", "\0", "\ud800", "x" * 10_001, 7, None)


async def asked(desk: Desk, **options: Any) -> Question:
    """An approval about which the asker can be asked."""
    options = {"form": _REFUND, "replies": "program", **options}
    return await desk.post("Refund the order?", **options)


def saw(messages: int) -> Provenance:
    """Where an answer comes from whose giver saw so many messages."""
    return Provenance(seen=messages)


class ThreadCases(ContractFixtures):
    """A pending question has a thread, and its status stays pending."""

    @promise("P7")
    async def test_a_person_asks_back_and_the_asker_replies(self, desk: Desk, clock: ManualClock) -> None:
        question = await asked(desk)
        assert (question.replies, question.thread, question.asked_back, question.replied) == (
            "program",
            0,
            0,
            0,
        )
        clock.advance(timedelta(minutes=1))
        back = await desk.ask_back(question.id, "Which customer?", by="ana")
        assert (back.status, back.thread, back.asked_back, back.is_askers_turn) == ("pending", 1, 1, True)
        assert await desk.get(question.id) == back
        clock.advance(timedelta(minutes=1))
        replied = await desk.reply(question.id, "Customer 12.")
        assert (replied.thread, replied.asked_back, replied.replied, replied.is_askers_turn) == (
            2,
            0,
            2,
            False,
        )
        assert await desk.get(question.id) == replied
        one, other = await desk.thread(question.id)
        assert (one.number, one.kind, one.by, one.text) == (1, "asked_back", "ana", "Which customer?")
        assert (other.number, other.kind, other.by, other.text) == (2, "replied", "agent", "Customer 12.")
        assert other.at - one.at == timedelta(minutes=1)

    @promise("P7")
    async def test_every_message_leaves_one_event(self, desk: Desk) -> None:
        question = await asked(desk)
        where = Provenance(channel="slack")
        await desk.note(question.id, "I know them", by="bo", provenance=where)
        await desk.ask_back(question.id, "Why?", by="ana")
        await desk.reply(question.id, "They asked.")
        events = await desk.history(question.id)
        assert [event.kind for event in events] == ["asked", "noted", "asked_back", "replied"]
        assert [event.by for event in events] == ["agent", "bo", "ana", "agent"]
        assert (events[1].data["text"], events[2].data["text"]) == ("I know them", "Why?")
        assert events[3].data == {"text": "They asked.", "replies_to": 2}

    async def test_a_note_leaves_the_turn_where_it_is(self, desk: Desk) -> None:
        question = await asked(desk)
        noted = await desk.note(question.id, "I know them", by="ana")
        assert (noted.thread, noted.asked_back, noted.is_askers_turn) == (1, 0, False)
        await desk.ask_back(question.id, "Why?", by="bo")
        noted = await desk.note(question.id, "Wait for the reply", by="ana")
        assert (noted.thread, noted.asked_back, noted.is_askers_turn) == (3, 2, True)

    async def test_what_people_write_is_kept_as_it_is(self, desk: Desk) -> None:
        question = await asked(desk)
        text = " <b>Ünïcode</b> \u202e \n\n'; drop table questions; -- "
        await desk.ask_back(question.id, text, by="ana")
        await desk.reply(question.id, text)
        assert [message.text for message in await desk.thread(question.id)] == [text, text]

    @pytest.mark.parametrize("text", _WRONG_TEXTS, ids=range(len(_WRONG_TEXTS)))
    async def test_a_text_that_cannot_be_kept_is_refused(self, desk: Desk, text: Any) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Why?", by="ana")
        for write in (
            desk.ask_back(question.id, text, by="ana"),
            desk.note(question.id, text, by="ana"),
            desk.reply(question.id, text),
        ):
            with pytest.raises(InvalidMessage) as refused:
                await write
            assert refused.value.problems[0].path == "text"
        assert (await desk.get(question.id)).thread == 1

    @pytest.mark.parametrize("replies", ["person", "", True, 1])
    async def test_who_replies_is_the_program_the_model_or_nobody(self, desk: Desk, replies: Any) -> None:
        with pytest.raises(InvalidQuestion, match="replies"):
            await asked(desk, replies=replies)

    async def test_if_nobody_replies_people_can_only_note(self, desk: Desk) -> None:
        question = await asked(desk, replies=None)
        with pytest.raises(CannotAskBack):
            await desk.ask_back(question.id, "Why?", by="ana")
        assert (await desk.note(question.id, "I know them", by="ana")).thread == 1
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "noted"]

    @pytest.mark.parametrize(
        "options", [{"choices": ["a", "b"], "form": None}, {"form": None}], ids=["choice", "text"]
    )
    async def test_every_kind_of_question_has_a_thread(self, desk: Desk, options: dict[str, Any]) -> None:
        given = {name: value for name, value in options.items() if value is not None}
        question = await desk.post("Which?", replies="model", **given)
        await desk.ask_back(question.id, "Of what?", by="ana")
        await desk.reply(question.id, "Of the two.")
        # Only an approval must cover the whole conversation.
        answered = await desk.answer(question.id, "a", by="ana")
        assert (answered.status, answered.thread) == ("answered", 2)

    async def test_only_who_may_answer_may_write(self, desk: Desk) -> None:
        question = await asked(desk, recipients=["ana", "group:ops"])
        for write in (desk.ask_back, desk.note):
            for by in ("bo", "agent", Responder("bo", frozenset({"dev"}))):
                with pytest.raises(PermissionDenied):
                    await write(question.id, "Why?", by=by)
        await desk.note(question.id, "Fine", by=Responder("cy", frozenset({"ops"})))
        assert (await desk.ask_back(question.id, "Why?", by="ana")).thread == 2

    async def test_only_the_asker_replies(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as desk:
            question = await asked(desk)
            await desk.ask_back(question.id, "Why?", by="ana")
            with pytest.raises(REFUSED):
                await desk.scoped(asker="other").reply(question.id, "Approve it, it is fine.")
            assert (await desk.get(question.id)).thread == 1

    async def test_a_question_that_does_not_exist_has_no_thread(self, desk: Desk) -> None:
        for call in (
            desk.ask_back("nope", "Why?", by="ana"),
            desk.note("nope", "Fine", by="ana"),
            desk.reply("nope", "Because."),
            desk.thread("nope"),
        ):
            with pytest.raises(QuestionNotFound):
                await call

    async def test_nobody_replies_before_somebody_asked(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.note(question.id, "I know them", by="ana")
        with pytest.raises(NothingToReply):
            await desk.reply(question.id, "It is fine, approve it.")
        await desk.ask_back(question.id, "Why?", by="ana")
        await desk.reply(question.id, "They asked.")
        with pytest.raises(NothingToReply):
            await desk.reply(question.id, "And it is urgent.")
        assert (await desk.get(question.id)).thread == 3

    async def test_a_reply_to_an_earlier_message_leaves_the_later_one_open(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        await desk.ask_back(question.id, "Which order?", by="bo")
        first = await desk.reply(question.id, "Customer 12.", to=1)
        assert (first.thread, first.asked_back, first.is_askers_turn) == (3, 2, True)
        second = await desk.reply(question.id, "Order 7.", to=2)
        assert (second.thread, second.asked_back, second.is_askers_turn) == (4, 0, False)

    @promise("P2")
    @pytest.mark.parametrize("ending", ["answered", "declined", "withdrawn", "expired"])
    async def test_a_question_that_has_ended_has_no_new_messages(
        self, desk: Desk, clock: ManualClock, ending: str
    ) -> None:
        question = await desk.post(
            "Which?", choices=["a", "b"], replies="program", expires_in=timedelta(hours=1)
        )
        await desk.ask_back(question.id, "Why?", by="ana")
        if ending == "answered":
            await desk.answer(question.id, "a", by="ana")
        elif ending == "declined":
            await desk.decline(question.id, by="ana")
        elif ending == "withdrawn":
            await desk.withdraw(question.id)
        else:
            clock.advance(timedelta(hours=1))
        for write in (
            desk.ask_back(question.id, "Why?", by="ana"),
            desk.note(question.id, "Fine", by="ana"),
            desk.reply(question.id, "Because."),
        ):
            with pytest.raises(AlreadySettled) as settled:
                await write
            assert settled.value.outcome.status == ending
        assert (await desk.get(question.id)).thread == 1

    async def test_a_thread_has_an_end(self, desk: Desk) -> None:
        question = await asked(desk)
        for number in range(200):
            await desk.note(question.id, str(number), by="ana")
        with pytest.raises(InvalidMessage, match="200 messages"):
            await desk.note(question.id, "one more", by="ana")
        assert (await desk.answer(question.id, "approve", by="ana", provenance=saw(200))).decision

    async def test_an_asker_cannot_go_on_replying_to_nothing(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        for number in range(199):
            await desk.reply(question.id, str(number), to=0)
        with pytest.raises(InvalidMessage, match="200 messages"):
            await desk.reply(question.id, "one more", to=0)
        assert (await desk.get(question.id)).thread == 200


class ConsentCases(ContractFixtures):
    """An approval covers the conversation that its giver saw (P15)."""

    @promise("P15")
    @pytest.mark.parametrize("seen", [None, 0, 1, 3, 200])
    async def test_an_approval_of_another_conversation_is_refused(self, desk: Desk, seen: int | None) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        await desk.reply(question.id, "Customer 12.")
        with pytest.raises(ThreadMoved) as moved:
            await desk.answer(question.id, "approve", by="ana", provenance=Provenance(seen=seen))
        assert (moved.value.question_id, moved.value.seen, moved.value.thread) == (question.id, seen or 0, 2)
        assert (await desk.get(question.id)).status == "pending"
        assert len(await desk.history(question.id)) == 3

    @promise("P15")
    async def test_an_approval_of_the_whole_conversation_counts(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        await desk.reply(question.id, "Customer 12.")
        answered = await desk.answer(question.id, "approve", by="ana", provenance=saw(2))
        assert answered.decision
        assert (await desk.history(question.id))[-1].data["seen"] == 2
        assert (await desk.consume_approval(question.id)).arguments == {"amount": 300}

    @promise("P15")
    async def test_an_approval_while_the_asker_is_asked_covers_the_question(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        assert (await desk.answer(question.id, "approve", by="bo", provenance=saw(1))).decision

    @promise("P15")
    async def test_a_note_of_somebody_else_is_part_of_the_conversation(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.note(question.id, "This is a fraud", by="bo")
        with pytest.raises(ThreadMoved):
            await desk.answer(question.id, "approve", by="ana")
        assert (await desk.answer(question.id, "approve", by="ana", provenance=saw(1))).decision

    @promise("P11")
    @pytest.mark.parametrize("how", ["deny", "decline"])
    async def test_a_refusal_need_not_cover_the_conversation(self, desk: Desk, how: str) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Which customer?", by="ana")
        if how == "deny":
            refused = await desk.answer(question.id, "deny", by="bo")
        else:
            refused = await desk.decline(question.id, by="bo")
        assert refused.outcome is not None
        assert not refused.decision

    @promise("P15")
    async def test_an_edited_action_covers_the_conversation_too(self, desk: Desk) -> None:
        question = await asked(desk, form=Approval.of("refund", {"amount": 300}, editable=["amount"]))
        await desk.note(question.id, "At most 100", by="bo")
        edited = {"decision": "approve", "arguments": {"amount": 100}}
        with pytest.raises(ThreadMoved):
            await desk.answer(question.id, edited, by="ana")
        assert (await desk.answer(question.id, edited, by="ana", provenance=saw(1))).decision

    @promise("P15")
    async def test_no_grant_answers_what_people_talk_about(self, desk: Desk) -> None:
        first = await asked(desk, form=Approval.of("refund", {"amount": 300}, scopes=["once", "always"]))
        await desk.answer(first.id, {"decision": "approve", "scope": "always"}, by="ana")
        second = await asked(desk, form=Approval.of("refund", {"amount": 300}, scopes=["once", "always"]))
        await desk.ask_back(second.id, "Again?", by="bo")
        assert await desk.apply_grant(second.id) is None
        assert (await desk.get(second.id)).status == "pending"

    @promise("P15")
    async def test_a_vote_before_a_reply_does_not_count_any_more(self, desk: Desk) -> None:
        question = await asked(desk, recipients=["ana", "bo", "cy"], quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        await desk.ask_back(question.id, "Which customer?", by="bo")
        await desk.reply(question.id, "Customer 12.")
        voted = await desk.answer(question.id, "approve", by="bo", provenance=saw(2))
        assert (voted.status, [vote.by for vote in voted.votes]) == ("pending", ["bo"])
        assert (await desk.history(question.id))[-1].data["uncounted"] == ["ana"]
        assert (await desk.answer(question.id, "approve", by="ana", provenance=saw(2))).decision

    @promise("P15")
    async def test_a_vote_before_a_note_counts(self, desk: Desk) -> None:
        question = await asked(desk, recipients=["ana", "bo", "cy"], quorum=2)
        await desk.answer(question.id, "approve", by="ana")
        await desk.note(question.id, "I looked at the order", by="cy")
        assert (await desk.answer(question.id, "approve", by="bo", provenance=saw(1))).decision

    @promise("P11")
    async def test_a_refusal_before_a_reply_still_counts(self, desk: Desk) -> None:
        question = await asked(desk, recipients=["ana", "bo", "cy"], quorum=2)
        await desk.answer(question.id, "deny", by="ana")
        await desk.ask_back(question.id, "Which customer?", by="bo")
        await desk.reply(question.id, "Customer 12.")
        denied = await desk.answer(question.id, "deny", by="bo")
        assert denied.status == "answered"
        assert not denied.decision

    @promise("P15")
    async def test_of_an_approval_and_a_message_at_once_the_approval_saw_what_came_first(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as other:
            for _ in range(10):
                question = await asked(one)
                told = await asyncio.gather(
                    one.answer(question.id, "approve", by="ana"),
                    other.note(question.id, "This is a fraud", by="bo"),
                    return_exceptions=True,
                )
                kinds = [event.kind.value for event in await one.history(question.id)]
                if isinstance(told[0], Question):
                    assert kinds == ["asked", "answered"]
                    assert isinstance(told[1], AlreadySettled)
                else:
                    assert isinstance(told[0], ThreadMoved)
                    assert kinds == ["asked", "noted"]

    @pytest.mark.parametrize("seen", [-1, 10**9])
    async def test_nobody_saw_so_many_messages(self, desk: Desk, seen: int) -> None:
        question = await asked(desk)
        with pytest.raises(ValueError, match="seen"):
            await desk.answer(question.id, "approve", by="ana", provenance=saw(seen))


class TurnCases(ContractFixtures):
    """While it is the asker's turn, reminders pause, and the expiry does not."""

    async def test_reminders_and_escalations_pause(self, desk: Desk, clock: ManualClock) -> None:
        timeline = Timeline(
            remind=[timedelta(hours=1)],
            escalate=[Escalation(after=timedelta(hours=2), to=("boss",))],
            expire=timedelta(days=1),
        )
        question = await asked(desk, recipients=["ana"], timeline=timeline)
        back = await desk.ask_back(question.id, "Why?", by="ana")
        assert back.due_at == back.expires_at
        clock.advance(timedelta(hours=5))
        await desk.run_due()
        paused = await desk.get(question.id)
        assert (paused.steps_taken, paused.due_at) == (0, question.expires_at)
        await desk.reply(question.id, "Because.")
        await desk.run_due()
        now = await desk.get(question.id)
        assert (now.steps_taken, now.stepped_at) == (1, clock.now())
        clock.advance(timedelta(minutes=10))
        await desk.run_due()
        assert "boss" in (await desk.get(question.id)).audience

    @promise("P10")
    async def test_the_expiry_does_not_pause(self, desk: Desk, clock: ManualClock) -> None:
        timeline = Timeline(remind=[timedelta(hours=1), timedelta(hours=2)], expire=timedelta(hours=3))
        question = await asked(desk, timeline=timeline)
        await desk.ask_back(question.id, "Why?", by="ana")
        clock.advance(timedelta(hours=3))
        ended = await desk.get(question.id)
        assert (ended.status, ended.steps_taken) == ("expired", 0)
        assert [event.kind for event in await desk.history(question.id)] == ["asked", "asked_back", "expired"]
        assert list(await desk.list_pending()) == []

    async def test_a_question_without_an_expiry_waits_for_its_asker(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        question = await asked(desk, timeline=Timeline(remind=[timedelta(hours=1)]))
        assert (await desk.ask_back(question.id, "Why?", by="ana")).due_at is None
        clock.advance(timedelta(days=9))
        assert await desk.run_due() == 0
        assert (await desk.reply(question.id, "Because.")).due_at is not None

    async def test_what_waits_for_its_asker_comes_last(self, desk: Desk) -> None:
        soon = await asked(desk, expires_in=timedelta(hours=1))
        later = await asked(desk, expires_in=timedelta(days=9))
        await desk.ask_back(soon.id, "Why?", by="ana")
        assert [each.id for each in await desk.list_pending(order="urgency")] == [later.id, soon.id]
        mine = await desk.list_pending(order="urgency", recipient="ana")
        assert [each.id for each in mine] == [later.id, soon.id]
        await desk.reply(soon.id, "Because.")
        assert [each.id for each in await desk.list_pending(order="urgency")] == [soon.id, later.id]

    async def test_pages_by_urgency_reach_what_waits_for_its_asker(self, desk: Desk) -> None:
        questions = [await asked(desk) for _ in range(3)]
        for each in questions[:2]:
            await desk.ask_back(each.id, "Why?", by="ana")
        found, after = [], None
        while True:
            page = await desk.list_pending(order="urgency", after=after, limit=1)
            found += [each.id for each in page]
            if (after := page.next) is None:
                break
        assert found == [questions[2].id, questions[0].id, questions[1].id]


class ReplyingCases(ContractFixtures):
    """The program that asked hears what people ask back, and replies."""

    async def test_messages_come_as_they_are_written_until_the_end(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk, backend.open(workspace=workspace) as people:
            question = await asked(desk)
            await people.ask_back(question.id, "first", by="ana")
            texts = []

            async def listen() -> None:
                async for message in desk.messages(question.id):
                    texts.append(message.text)  # noqa: PERF401 -- as they come

            listening = asyncio.create_task(listen())
            async with asyncio.timeout(SOON):
                while texts != ["first"]:  # noqa: ASYNC110 -- another desk decides
                    await asyncio.sleep(0.01)
                await people.note(question.id, "not for the asker", by="ana")
                await people.ask_back(question.id, "second", by="bo")
                while texts != ["first", "second"]:  # noqa: ASYNC110 -- another desk decides
                    await asyncio.sleep(0.01)
                await people.decline(question.id, by="ana")
                await listening
            assert texts == ["first", "second"]

    async def test_messages_of_a_settled_question_are_the_past_ones(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "first", by="ana")
        await desk.ask_back(question.id, "second", by="ana")
        await desk.decline(question.id, by="ana")
        async with asyncio.timeout(SOON):
            assert [each.text async for each in desk.messages(question.id)] == ["first", "second"]
            assert [each.text async for each in desk.messages(question.id, after=1)] == ["second"]

    async def test_ask_replies_with_a_function(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace) as desk, backend.open(workspace=workspace) as people:

            def explain(message: Any) -> str:
                return f"You asked: {message.text}"

            asking = asyncio.create_task(desk.ask("Which?", choices=["a", "b"], reply_with=explain))
            async with asyncio.timeout(SOON):
                while not (page := await people.list_pending()):  # noqa: ASYNC110 -- another desk decides
                    await asyncio.sleep(0.01)
                (question,) = page
                assert question.replies == "program"
                await people.ask_back(question.id, "Of what?", by="ana")
                while not (await people.get(question.id)).replied:  # noqa: ASYNC110 -- another desk decides
                    await asyncio.sleep(0.01)
                assert (await people.thread(question.id))[-1].text == "You asked: Of what?"
                await people.answer(question.id, "a", by="ana")
                assert await asking == "a"

    @promise("P9")
    async def test_an_approval_replies_and_another_process_continues(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as people:
            async with backend.open(workspace=workspace) as first:
                question = await asked(first, key="refund-7")
                await people.ask_back(question.id, "Which customer?", by="ana")
            async with backend.open(workspace=workspace) as second:  # the first one has crashed
                executing = asyncio.create_task(
                    second.request_approval(
                        _REFUND,
                        prompt="Refund the order?",
                        key="refund-7",
                        reply_with=lambda message: "Customer 12.",  # noqa: ARG005
                    )
                )
                async with asyncio.timeout(SOON):
                    while not (await people.get(question.id)).replied:  # noqa: ASYNC110 -- another desk decides
                        await asyncio.sleep(0.01)
                    await people.answer(question.id, "approve", by="ana", provenance=saw(2))
                    assert (await executing).arguments == {"amount": 300}
                assert [each.text for each in await people.thread(question.id)] == [
                    "Which customer?",
                    "Customer 12.",
                ]

    async def test_what_waits_behind_a_reply_is_replied_to_after_a_restart(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as people:
            question = await asked(people)
            await people.ask_back(question.id, "Which customer?", by="ana")
            await people.ask_back(question.id, "Which order?", by="bo")
            await people.reply(question.id, "Customer 12.", to=1)
            async with backend.open(workspace=workspace) as desk:
                waiting = asyncio.create_task(
                    desk.wait(question.id, reply_with=lambda message: f"To {message.text}")
                )
                async with asyncio.timeout(SOON):
                    while (await people.get(question.id)).is_askers_turn:  # noqa: ASYNC110 -- another desk decides
                        await asyncio.sleep(0.01)
                    await people.decline(question.id, by="ana")
                    await waiting
            assert [each.text for each in await people.thread(question.id)][2:] == [
                "Customer 12.",
                "To Which order?",
            ]

    async def test_what_the_function_raises_ends_the_wait(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Why?", by="ana")

        def fail(_: Any) -> str:
            raise LookupError("no customer")

        async with asyncio.timeout(SOON):
            with pytest.raises(LookupError, match="no customer"):
                await desk.wait(question.id, reply_with=fail)
        assert (await desk.get(question.id)).status == "pending"

    async def test_a_function_that_says_nothing_leaves_people_waiting(self, desk: Desk) -> None:
        question = await asked(desk)
        await desk.ask_back(question.id, "Why?", by="ana")
        with pytest.raises(TimeoutError):
            await desk.wait(question.id, timeout=0.3, reply_with=lambda _: None)
        assert (await desk.get(question.id)).is_askers_turn
