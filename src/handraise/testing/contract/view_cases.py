"""Reading: pages, histories, the feed, and the separation of workspaces."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Desk, Event, InvalidAnswer, Question, QuestionNotFound, Responder, Timeline
from handraise.errors import DeskClosed
from handraise.model.provenance import Provenance
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON, Backend, ContractFixtures, fed
from handraise.testing.promises import promise


class ViewCases(ContractFixtures):
    """What is pending can be redrawn from the store alone; what happened can be read in order."""

    async def test_pending_lists_what_is_open_oldest_first(self, desk: Desk) -> None:
        posted = [await desk.post(f"Which {n}?") for n in range(5)]
        await desk.answer(posted[1].id, "a", by="ana")
        await desk.withdraw(posted[3].id)
        assert (await desk.list_pending()).items == [posted[0], posted[2], posted[4]]

    @pytest.mark.parametrize("filtered", ["all", "asker", "conversation", "recipient"])
    async def test_pages_go_on_where_the_last_one_ended(self, desk: Desk, filtered: str) -> None:
        posted = [
            await desk.post(f"Which {n}?", conversation="c", recipients=["ana", "group:ops"])
            for n in range(7)
        ]
        where: dict[str, dict[str, str | Responder]] = {
            "all": {},
            "asker": {"asker": "agent"},
            "conversation": {"conversation": "c"},
            "recipient": {"recipient": Responder("ana", groups=frozenset({"ops"}))},
        }
        seen: list[Question] = []
        after = None
        for _ in range(4):
            page = await desk.list_pending(after=after, limit=3, **where[filtered])  # type: ignore[arg-type]  # one filter at a time
            seen += page.items
            after = page.next
            if after is None:
                break
        assert seen == posted

    async def test_pending_by_urgency_lists_the_most_urgent_first(self, desk: Desk) -> None:
        last = await desk.post("Which?", recipients=["ana"])
        risky = await desk.post("Pay?", form=Approval.of("pay", {}, risk="high"), recipients=["ana"])
        first = await desk.post("Quick?", expires_in=600, recipients=["ana"], conversation="c")
        order = [first, risky, last]
        filters: list[dict[str, Any]] = [{}, {"recipient": "ana"}, {"asker": "agent"}]
        for where in filters:
            page = await desk.list_pending(order="urgency", limit=2, **where)
            rest = await desk.list_pending(order="urgency", limit=2, after=page.next, **where)
            assert ([*page.items, *rest.items], rest.next) == (order, None)
        assert (await desk.list_pending(order="urgency", conversation="c")).items == [first]
        assert (await desk.list_pending()).items == [last, risky, first]
        with pytest.raises(ValueError, match="cursor"):
            await desk.list_pending(order="urgency", after="nonsense")

    async def test_pages_do_not_jump_when_something_before_them_is_settled(self, desk: Desk) -> None:
        posted = [await desk.post(f"Which {n}?") for n in range(6)]
        first = await desk.list_pending(limit=2)
        await desk.answer(posted[0].id, "a", by="ana")
        second = await desk.list_pending(limit=2, after=first.next)
        assert second.items == posted[2:4]

    async def test_pending_narrows_by_conversation_asker_and_both(self, desk: Desk) -> None:
        other = desk.scoped(asker="other")
        one = await desk.post("One?", conversation="c1")
        two = await other.post("Two?", conversation="c1")
        three = await other.post("Three?", conversation="c2")
        four = await other.post("Four?")
        assert (await desk.list_pending(conversation="c1")).items == [one, two]
        assert (await desk.list_pending(asker="other")).items == [two, three, four]
        assert (await desk.list_pending(asker="other", conversation="c1")).items == [two]
        assert (await desk.list_pending(conversation="c3")).items == []

    async def test_an_inbox_holds_what_a_person_may_answer(self, desk: Desk) -> None:
        anyone = await desk.post("Anyone?")
        ana = await desk.post("Ana?", recipients=["ana"])
        ops = await desk.post("Ops?", recipients=["group:ops"], conversation="c")
        await desk.scoped(asker="ana").post("Asked by Ana?")
        bobs = await desk.scoped(asker="bob").post("Asked by Bob?", recipients=["ana", "group:ops"])
        assert (await desk.list_pending(recipient="ana")).items == [anyone, ana, bobs]
        in_ops = Responder("bob", groups=frozenset({"ops"}))
        listed = [question.prompt for question in (await desk.list_pending(recipient=in_ops)).items]
        assert listed == ["Anyone?", "Ops?", "Asked by Ana?"]
        assert (await desk.list_pending(recipient=in_ops, conversation="c")).items == [ops]
        assert (await desk.list_pending(recipient="ana", conversation="c")).items == []
        assert (await desk.list_pending(recipient="ana", asker="bob")).items == [bobs]

    @promise("P7")
    async def test_every_transition_leaves_exactly_one_event(self, desk: Desk, clock: ManualClock) -> None:
        question = await desk.post(
            "Which?", choices=["a"], quorum=2, timeline=Timeline(remind=(timedelta(1),))
        )
        with pytest.raises(InvalidAnswer):
            await desk.answer(question.id, "x", by="ana", provenance=Provenance(channel="web"))
        clock.advance(timedelta(1))
        await desk.run_due()
        await desk.answer(question.id, "a", by="ana", provenance=Provenance(channel="web"))
        await desk.answer(question.id, "a", by="bob", provenance=Provenance(channel="slack"))
        events = await desk.history(question.id)
        assert [(event.kind, event.by, event.channel) for event in events] == [
            ("asked", "agent", None),
            ("attempted", "ana", "web"),
            ("reminded", None, None),
            ("voted", "ana", "web"),
            ("answered", "bob", "slack"),
        ]
        assert all(event.question_id == question.id for event in events)
        assert [event.at for event in events[1:3]] == [question.asked_at, clock.now()]

    async def test_what_a_person_saw_is_in_the_history(self, desk: Desk) -> None:
        one, other = await desk.post("Which?"), await desk.post("Which else?")
        for unfit in ("x", "F" * 64):
            with pytest.raises(InvalidAnswer, match="shown"):
                await desk.answer(one.id, "a", by="ana", provenance=Provenance(shown_digest=unfit))
            with pytest.raises(InvalidAnswer, match="shown"):
                await desk.decline(other.id, by="ana", provenance=Provenance(shown_digest=unfit))
        await desk.answer(one.id, "a", by="ana", provenance=Provenance(shown_digest="0a" * 32))
        await desk.decline(other.id, by="ana", provenance=Provenance(shown_digest="0b" * 32))
        assert (await desk.history(one.id))[-1].data["shown_digest"] == "0a" * 32
        assert (await desk.history(other.id))[-1].data["shown_digest"] == "0b" * 32

    async def test_the_history_of_an_unknown_question_is_an_error(self, desk: Desk) -> None:
        with pytest.raises(QuestionNotFound):
            await desk.history("nonesuch")
        with pytest.raises(QuestionNotFound):
            await desk.get("nonesuch")

    @pytest.mark.parametrize("text", ["\x00", "\ud800"])
    async def test_looking_for_what_no_store_could_keep_finds_nothing(self, desk: Desk, text: str) -> None:
        await desk.post("Which?", key="k", conversation="c")
        assert await desk.find_by_key(text) is None
        assert (await desk.list_pending(conversation=text)).items == []
        assert (await desk.list_pending(asker=text)).items == []
        with pytest.raises(QuestionNotFound):
            await desk.wait(text)
        with pytest.raises(QuestionNotFound):
            await desk.history(text)

    @promise("P7")
    async def test_the_feed_gives_everything_once_in_order(self, desk: Desk) -> None:
        questions = [await desk.post(f"Which {n}?") for n in range(3)]
        for question in questions:
            await desk.answer(question.id, "a", by="ana")
        seen: list[Event] = []
        after = None
        await fed(desk, 6)
        while page := await desk.feed(after=after, limit=2):
            assert len(page) <= 2
            seen += page
            after = page.next
        assert [(event.question_id, event.kind) for event in seen] == [
            *((question.id, "asked") for question in questions),
            *((question.id, "answered") for question in questions),
        ]
        assert len({event.cursor for event in seen}) == len(seen)

    @promise("P7")
    async def test_a_reader_of_the_feed_misses_nothing_while_others_write(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:

            async def write(desk: Desk) -> None:
                for _ in range(20):
                    question = await desk.post("Which?")
                    await desk.answer(question.id, "a", by="ana")

            async def read() -> list[str]:
                seen: list[str] = []
                after = None
                while len(seen) < 160:
                    page = await one.feed(after=after, limit=7)
                    seen += [f"{event.question_id} {event.kind}" for event in page]
                    after = page.next
                    await asyncio.sleep(0)
                return seen

            reading = asyncio.create_task(read())
            await asyncio.gather(*(write(desk) for desk in (one, two, one, two)))
            seen = await reading
            assert len(seen) == len(set(seen)) == 160

    async def test_a_follower_gets_what_happens_from_now_on(self, desk: Desk) -> None:
        before = await desk.post("Before?")
        await fed(desk, 1)
        async with aclosing(desk.follow()) as events:
            first = asyncio.create_task(anext(events))
            # Something happens again and again until the follower is there: from then on nothing is missed.
            while not first.done():
                await desk.post("Meanwhile?")
                await asyncio.wait([first], timeout=0.1)
            assert (await first).question_id != before.id
            await desk.answer(before.id, "a", by="ana")
            async with asyncio.timeout(SOON):
                async for event in events:
                    if event.question_id == before.id:
                        assert event.kind == "answered"
                        break

    @promise("P7")
    async def test_a_follower_gets_everything_once_and_in_order_from_a_cursor_on(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as one, backend.open(workspace=workspace) as two:
            first = await one.post("First?")
            place = (await fed(one, 1))[-1].cursor

            async def write(desk: Desk) -> None:
                for _ in range(10):
                    question = await desk.post("Which?")
                    await desk.answer(question.id, "a", by="ana")

            async def read(after: str, count: int) -> list[Event]:
                seen: list[Event] = []
                async with aclosing(one.follow(after=after)) as events:
                    async for event in events:
                        seen.append(event)
                        if len(seen) == count:
                            break
                return seen

            async with asyncio.timeout(3 * SOON):
                live = asyncio.create_task(read(place, 80))
                await asyncio.gather(*(write(desk) for desk in (one, two, one, two)))
                seen = await live
                assert await read("", 81) == [(await one.history(first.id))[0], *seen]
                assert await read(seen[39].cursor, 40) == seen[40:]
            assert len({event.cursor for event in seen}) == 80
            assert await fed(one, 80, after=place) == seen

    @promise("P10")
    async def test_a_follower_is_sent_away_when_the_desk_closes(
        self, backend: Backend, workspace: str
    ) -> None:
        async with backend.open(workspace=workspace) as desk:
            events = desk.follow()
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.05)
        with pytest.raises(DeskClosed):
            async with asyncio.timeout(SOON):
                await waiting
        with pytest.raises(DeskClosed):
            await anext(desk.follow())

    @promise("P8")
    async def test_no_row_crosses_a_workspace(self, desk: Desk, workspace: str) -> None:
        elsewhere = desk.scoped(f"{workspace}-2")
        question = await desk.post("Which?", key="k", conversation="c", recipients=["ana"])
        same_key = await elsewhere.post("Something else?", key="k")
        assert same_key.id != question.id
        with pytest.raises(QuestionNotFound):
            await elsewhere.get(question.id)
        with pytest.raises(QuestionNotFound):
            await elsewhere.history(question.id)
        with pytest.raises(QuestionNotFound):
            await elsewhere.withdraw(question.id)
        with pytest.raises(QuestionNotFound):
            await elsewhere.decline(question.id, by="ana")
        for page in (
            await elsewhere.list_pending(),
            await elsewhere.list_pending(recipient="ana"),
            await elsewhere.list_pending(conversation="c"),
            await elsewhere.list_pending(asker="agent"),
        ):
            assert question not in page.items
        assert {event.question_id for event in await fed(elsewhere, 1)} == {same_key.id}
        assert await elsewhere.find_by_key("k") == same_key

    @promise("P8")
    @pytest.mark.parametrize("name", ["", " ", "a\x00b", "\ud800", "x" * 201])
    async def test_a_name_that_cannot_be_kept_is_no_workspace_and_no_asker(
        self, desk: Desk, name: str
    ) -> None:
        with pytest.raises(ValueError, match="cannot be the name of a workspace"):
            desk.scoped(name)
        with pytest.raises(ValueError, match="cannot be the name of an asker"):
            desk.scoped(asker=name)

    @pytest.mark.parametrize("limit", [-2, -1, 0, 501])
    async def test_a_page_that_no_desk_gives_out_is_refused(self, desk: Desk, limit: int) -> None:
        await desk.post("Which?")
        for verb in (desk.list_pending, desk.list_settled, desk.list_grants, desk.feed):
            with pytest.raises(ValueError, match=f"from 1 to 500, not {limit}"):
                await verb(limit=limit)

    @pytest.mark.parametrize("junk", ["nonsense", "-1", "1.2.3", "٣", "\x00", "\ud800"])
    async def test_a_feed_goes_on_from_no_cursor_that_it_did_not_give_out(
        self, desk: Desk, junk: str
    ) -> None:
        with pytest.raises(ValueError, match="cursor"):
            await desk.feed(after=junk)

    @promise("P8")
    async def test_two_workspaces_may_use_the_same_ids(self, backend: Backend, workspace: str) -> None:
        async with backend.open(workspace=workspace, new_id=lambda: "q-1") as desk:
            mine, yours = await desk.post("Mine?"), await desk.scoped(f"{workspace}-2").post("Yours?")
            await desk.answer(mine.id, "a", by="ana")
            assert (await desk.get("q-1")).status == "answered"
            assert (await desk.scoped(f"{workspace}-2").get("q-1")).status == "pending"
            assert (yours.prompt, len(await fed(desk, 2))) == ("Yours?", 2)

    @promise("P3")
    async def test_the_durability_in_force_is_said(self, desk: Desk) -> None:
        assert (await desk.durability()).survives
