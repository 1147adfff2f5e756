"""The store, for promises that a desk cannot show: the end of a feed, how far a page reads, statistics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Unpack

import pytest

from handraise import (
    Answered,
    Approval,
    Confirm,
    Event,
    KeyConflict,
    Problem,
    Question,
    Responder,
    StillPending,
    StoreUnavailable,
    Timeline,
)
from handraise.desks import desk_from_store
from handraise.model.approval_uses import Use
from handraise.model.drafting import compose
from handraise.model.events import EventKind
from handraise.model.lifecycle import answer_move, attempt_move, decline_move, grant_move, withdraw_move
from handraise.model.move_decisions import Refused
from handraise.model.provenance import Provenance
from handraise.model.receipts import UsableApproval
from handraise.model.statistics import Ending
from handraise.model.validation import check_answer
from handraise.ports import AGES, MAX_EVENTS_SCANNED, Filter, Store
from handraise.ports.settled_filter import SettledFilter
from handraise.questions import Draft, Limits, QuestionOptions, Ref
from handraise.testing.buses import SilentBus
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import SOON
from handraise.testing.contract.ending_cases import EndingCases
from handraise.testing.contract.queue_cases import QueueCases
from handraise.testing.promises import promise

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


class StoreContract(QueueCases, EndingCases):
    """What a store promises by itself; you define `store`, which must use the `clock`."""

    async def test_from_the_end_of_an_empty_feed_everything_is_new(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        await _post(store, elsewhere, "q-0")
        end = await store.feed_end(workspace)
        assert await store.feed(workspace, after=end, limit=10) == []
        await _post(store, workspace, "q-1")
        await _post(store, elsewhere, "q-2")
        (new,) = await _events(store, workspace, 1, after=end)
        assert (new.question_id, new.kind) == ("q-1", "asked")

    async def test_events_of_several_questions_come_in_order_and_of_these_kinds_only(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        first, second, _ = [await _post(store, workspace, f"q-{number}") for number in range(3)]
        await _post(store, elsewhere, "q-0")
        await store.settle([answer_move(second, Responder("ana"), "a")])
        await store.settle([answer_move(first, Responder("ana"), "a")])
        both, ids = (EventKind.ASKED, EventKind.ANSWERED), ["q-0", "q-1", "none"]
        found = await store.histories(workspace, ids, kinds=both, limit=10)
        assert [(event.question_id, event.kind.value) for event in found] == [
            ("q-0", "asked"),
            ("q-1", "asked"),
            ("q-1", "answered"),
            ("q-0", "answered"),
        ]
        assert found[0] == (await store.history(first.ref))[0]
        assert await store.histories(workspace, ids, kinds=both, limit=2) == found[2:]
        ended = await store.histories(workspace, ids, kinds=[EventKind.ANSWERED], limit=10)
        assert ended == found[2:]
        assert await store.histories(workspace, [], kinds=both, limit=10) == []

    async def test_settled_narrows_by_the_tool_of_the_action(self, store: Store, workspace: str) -> None:
        for name, form in (("pay", Approval.of("pay")), ("ship", Approval.of("ship")), ("none", Confirm())):
            question = await _post(store, workspace, name, form=form)
            await store.settle([decline_move(question, Responder("ana"))])
        for tool, expected in (("pay", ["pay"]), ("ship", ["ship"]), ("pa", [])):
            where = Filter(workspace=workspace, ending=SettledFilter(tool=tool))
            page = await store.settled(where, after=None, limit=10)
            assert [each.id for each in page.questions] == expected

    @promise("P4")
    async def test_a_waiter_gets_what_was_recorded_while_its_store_could_not_be_reached(
        self, store: Store, workspace: str
    ) -> None:
        failing: Any = _FailingStore(store)
        async with desk_from_store(failing, SilentBus(), workspace=workspace, poll_interval=0.01) as asker:
            question = await asker.post("Which?")
            waiting = asyncio.create_task(asker.wait(question.id, timeout=SOON))
            with pytest.raises(StillPending):
                await asker.wait(question.id, timeout=0.02)
            failing.is_down = True
            async with asyncio.timeout(SOON):
                while failing.failed < 3:  # noqa: ASYNC110 -- no read that began before is under way any more
                    await asyncio.sleep(0.01)
                await store.settle([answer_move(question, Responder("ana"), "a")])
                while failing.failed < 6:  # noqa: ASYNC110 -- the poll decides
                    await asyncio.sleep(0.01)
            assert not waiting.done()
            failing.is_down = False
            outcome = await waiting
            assert isinstance(outcome, Answered)
            assert outcome.value == "a"

    @promise("P4")
    async def test_what_was_settled_since_a_mark_is_found_and_what_is_pending_is_not(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        first, second, third, _ = [await _post(store, workspace, f"q-{n}") for n in range(4)]
        await store.settle([answer_move(first, Responder("ana"), "a")])
        none, mark = await store.settled_since(workspace, None, limit=10)
        assert (list(none), mark is None) == ([], False)
        await store.settle([answer_move(second, Responder("ana"), "a")])
        ids, following = await store.settled_since(workspace, mark, limit=10)
        assert {"q-1"} <= set(ids) <= {"q-0", "q-1"}
        await store.settle([withdraw_move(third, third.asker)])
        ids, _ = await store.settled_since(workspace, following, limit=10)
        assert "q-2" in ids
        assert "q-3" not in ids
        assert list((await store.settled_since(elsewhere, mark, limit=10))[0]) == []

    async def test_after_more_than_the_limit_there_is_no_mark(self, store: Store, workspace: str) -> None:
        questions = [await _post(store, workspace, f"q-{n}") for n in range(3)]
        _, mark = await store.settled_since(workspace, None, limit=2)
        for question in questions:
            await store.settle([answer_move(question, Responder("ana"), "a")])
        ids, following = await store.settled_since(workspace, mark, limit=2)
        assert (len(ids), following) == (2, None)

    @promise("P7")
    async def test_from_the_end_of_a_feed_only_what_is_new_comes(self, store: Store, workspace: str) -> None:
        question = await _post(store, workspace, "q-1")
        await store.settle([answer_move(question, Responder("ana"), "a")])
        await _events(store, workspace, 2)
        end = await store.feed_end(workspace)
        assert await store.feed(workspace, after=end, limit=10) == []
        later = await _post(store, workspace, "q-2")
        await store.settle([answer_move(later, Responder("ana"), "a")])
        new = await _events(store, workspace, 2, after=end)
        assert [(event.question_id, event.kind) for event in new] == [("q-2", "asked"), ("q-2", "answered")]
        assert await store.feed(workspace, after=await store.feed_end(workspace), limit=10) == []

    @promise("P7", "P8")
    async def test_the_end_of_a_feed_is_not_moved_by_other_workspaces(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        await _post(store, workspace, "q-1")
        await _events(store, workspace, 1)
        end = await store.feed_end(workspace)
        await _post(store, elsewhere, "q-3")
        await _events(store, elsewhere, 1)
        await _post(store, workspace, "q-2")
        assert [event.question_id for event in await _events(store, workspace, 1, after=end)] == ["q-2"]
        assert await store.feed(elsewhere, after=await store.feed_end(elsewhere), limit=10) == []

    @promise("P7")
    async def test_whoever_follows_from_the_end_misses_nothing_while_others_write(
        self, store: Store, workspace: str
    ) -> None:
        async def write(name: str) -> None:
            for n in range(20):
                await _post(store, workspace, f"{name}-{n}")

        async def follow(name: str) -> None:
            seen = await _events(store, workspace, 0)
            end = await store.feed_end(workspace)
            await _post(store, workspace, name)
            ends.append((seen, end, name))

        ends: list[tuple[Sequence[Event], str, str]] = []
        await asyncio.gather(*(write(f"w{n}") for n in range(4)), *(follow(f"f{n}") for n in range(10)))
        everything = await _events(store, workspace, 90)
        for seen, end, name in ends:
            new = await _events(store, workspace, 1, after=end)
            assert everything[len(everything) - len(new) :] == new
            assert {event.cursor for event in seen}.isdisjoint(event.cursor for event in new)
            assert name in {event.question_id for event in new}

    @promise("P8", "P10")
    async def test_a_sweep_of_one_workspace_leaves_the_others(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        other = await _post(store, elsewhere, "q-1", expires_in=_HOUR / 2)
        mine = await _post(store, workspace, "q-1", expires_in=_HOUR)
        later = await _post(store, workspace, "q-2", expires_in=_DAY)
        clock.advance(_HOUR)
        assert await store.run_due(limit=1, workspace=workspace) == [mine.ref]
        assert await _statuses(store, mine.ref, later.ref, other.ref) == ["expired", "pending", "pending"]
        assert await store.run_due(limit=1, workspace=workspace) == []
        assert other.ref in await store.run_due(limit=100)
        assert await _statuses(store, later.ref, other.ref) == ["pending", "expired"]

    @promise("P7")
    async def test_a_sweep_of_one_workspace_does_all_that_is_due_there_in_small_batches(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        for n in range(5):
            await _post(store, elsewhere, f"q-{n}", expires_in=_HOUR / 2)
            await _post(store, workspace, f"q-{n}", expires_in=_HOUR)
        clock.advance(_HOUR)
        refs = [Ref(workspace, f"q-{n}") for n in range(5)]
        assert sorted(await store.run_due(limit=2, workspace=workspace)) == refs
        for ref in refs:
            assert [event.kind for event in await store.history(ref)] == ["asked", "expired"]

    async def test_a_sweep_of_an_unknown_workspace_does_nothing(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        question = await _post(store, workspace, "q-1", expires_in=_HOUR)
        clock.advance(_HOUR)
        assert await store.run_due(limit=10, workspace=elsewhere) == []
        assert await _statuses(store, question.ref) == ["pending"]

    async def test_the_pulse_counts_what_is_pending_by_age(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        # So far ahead that everything that other tests left in the same store is older than the last age but one.
        clock.advance(10_000 * _DAY)
        before = await store.queue_stats()
        assert tuple(before.pending) == AGES
        await _post(store, workspace, "q-1")
        await _post(store, elsewhere, "q-1")
        assert await _grown(store, before.pending) == [2, 2, 2, 2, 2, 2, 2]
        clock.advance(timedelta(seconds=60))
        assert await _grown(store, before.pending) == [2, 2, 2, 2, 2, 2, 2]
        clock.advance(timedelta(seconds=1))
        assert await _grown(store, before.pending) == [0, 2, 2, 2, 2, 2, 2]
        clock.advance(_HOUR)
        question = await _post(store, workspace, "q-2")
        assert await _grown(store, before.pending) == [1, 1, 1, 3, 3, 3, 3]
        await store.settle([answer_move(question, Responder("ana"), "a")])
        assert await _grown(store, before.pending) == [0, 0, 0, 2, 2, 2, 2]
        clock.advance(8 * _DAY)
        assert await _grown(store, before.pending) == [0, 0, 0, 0, 0, 0, 2]

    async def test_the_pulse_counts_each_question_once(self, store: Store, workspace: str) -> None:
        before = (await store.queue_stats()).pending
        await _post(store, workspace, "q-1", recipients=["ana", "bob", "group:ops"])
        assert await _grown(store, before) == [1] * len(AGES)

    async def test_the_pulse_counts_askers_that_have_as_many_pending_questions_as_the_quota(
        self, store: Store, workspace: str, elsewhere: str
    ) -> None:
        before = {quota: (await store.queue_stats(quota=quota)).askers_at_quota for quota in (2, 3)}
        first = await _post(store, workspace, "q-1", recipients=["ana", "bob"])
        await _post(store, workspace, "q-2")
        await _post(store, elsewhere, "q-1")
        grown = {
            quota: (await store.queue_stats(quota=quota)).askers_at_quota - before[quota] for quota in (2, 3)
        }
        assert grown == {2: 1, 3: 0}
        assert (await store.queue_stats()).askers_at_quota == 0
        await store.settle([answer_move(first, Responder("ana"), "a")])
        assert (await store.queue_stats(quota=2)).askers_at_quota == before[2]

    @promise("P8")
    async def test_the_pulse_of_one_workspace_is_its_own(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        await _post(store, workspace, "q-1", recipients=["ana", "bob"])
        await _post(store, elsewhere, "q-1")
        clock.advance(_HOUR)
        settled = await _post(store, workspace, "q-2")
        await store.settle([answer_move(settled, Responder("ana"), "a")])
        await _post(store, workspace, "q-3")
        queue_stats = await store.queue_stats(workspace)
        assert tuple(queue_stats.pending) == AGES
        assert list(queue_stats.pending.values()) == [1, 1, 2, 2, 2, 2, 2]
        assert queue_stats.deliveries == {}
        assert set((await store.queue_stats(f"{workspace}-3")).pending.values()) == {0}

    async def test_a_walk_back_goes_so_far_and_says_where_to_go_on(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        for name in ("a-1", "a-2"):
            await _post(store, workspace, name)
        for question in await store.read([Ref(workspace, "a-1"), Ref(workspace, "a-2")]):
            assert question is not None
            await store.settle([answer_move(question, Responder("ana"), "a")])
        began = clock.now()
        clock.advance(_DAY)
        # With one more ending, the last event that is read is the end of a-2, and the next one is that of a-1.
        asked = [_draft(workspace, f"b-{n:04}") for n in range(MAX_EVENTS_SCANNED - 2)]
        for start in range(0, len(asked), 500):
            await store.insert(asked[start : start + 500])
        clock.advance(_DAY)
        other = await _post(store, elsewhere, "a-1")
        await store.settle([answer_move(other, Responder("ana"), "a")])
        (newest,) = await store.read([Ref(workspace, "b-0000")])
        assert newest is not None
        await store.settle([answer_move(newest, Responder("ana"), "a")])
        where = Filter(workspace=workspace)
        first = await store.settled(where, after=None, limit=10)
        assert [question.id for question in first.questions] == ["b-0000", "a-2"]
        assert first.after is not None
        full = await store.settled(where, after=None, limit=1)
        assert (full.questions, full.after is None) == (first.questions[:1], False)
        second = await store.settled(where, after=first.after, limit=10)
        assert ([question.id for question in second.questions], second.after) == (["a-1"], None)
        by_person = Filter(workspace=workspace, recipient=Responder("ana"), asker="another agent")
        assert (await store.settled(by_person, after=None, limit=10)).after == first.after
        # Statistics continue by themselves, and stop when everything is older than they need.
        ends = await store.endings(workspace, since=began, limit=2_000)
        assert [ending.settled_at for ending in ends.items] == [clock.now(), began, began]
        assert (ends.since, ends.is_complete) == (began, True)
        assert len((await store.endings(workspace, since=clock.now(), limit=2_000)).items) == 1
        # Only the newest events are read for one ending, so the result says that there may be more.
        cut = await store.endings(workspace, since=began, limit=1)
        assert (list(cut.items), cut.is_complete) == (list(ends.items[:1]), False)

    @promise("P8", "P13")
    async def test_endings_tell_how_questions_ended_and_nothing_of_what_was_said(
        self, store: Store, clock: ManualClock, workspace: str, elsewhere: str
    ) -> None:
        ana, began = Responder("ana"), clock.now()
        pay = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
        risky = Approval.of("pay", {"amount": 9}, risk="high")
        await _post(store, elsewhere, "q-0")
        await _post(store, workspace, "q-0")
        opened = [
            await _post(store, workspace, "q-1"),
            await _post(store, workspace, "q-2", choices=["a"], timeline=Timeline(expire=_HOUR, default="a")),
            await _post(store, workspace, "q-3", form=Confirm(), expires_in=_HOUR),
            await _post(store, workspace, "q-4", form=risky),
            await _post(store, workspace, "q-5", form=risky),
            await _post(store, workspace, "q-6", form=pay),
            await _post(store, workspace, "q-7", form=pay),
            await _post(store, workspace, "q-8"),
            await _post(store, workspace, "q-9", max_attempts=1),
        ]
        clock.advance(_HOUR / 2)
        approve = check_answer(pay, {"decision": "approve", "scope": "always"})
        moves = [
            answer_move(opened[0], ana, "a", provenance=Provenance(channel="web", evidence="session")),
            answer_move(opened[3], ana, check_answer(risky, "approve")),
            answer_move(opened[4], ana, check_answer(risky, "deny"), provenance=Provenance(channel="web")),
            answer_move(opened[5], ana, approve, grant_id=f"{workspace}-g"),
            withdraw_move(opened[7], "agent"),
            attempt_move(
                opened[8], ana, "x", [Problem("", "does not fit")], provenance=Provenance(channel="web")
            ),
        ]
        assert all(isinstance(each, Question) for each in await store.settle(moves))
        (grant,) = await store.grants(workspace, after=None, limit=2)
        assert all(isinstance(each, Question) for each in await store.settle([grant_move(opened[6], grant)]))
        declined = await _post(store, workspace, "r-0", form=pay)
        await store.settle([decline_move(declined, ana, provenance=Provenance(channel="mail"))])
        clock.advance(_HOUR / 2)
        await store.run_due(limit=10, workspace=workspace)
        half = began + _HOUR / 2

        def ending(question_id: str, kind: str, status: str, at: datetime, **more: Any) -> Ending:
            asked_at = more.pop("asked_at", began)
            values = {"asker": "agent", "kind": kind, "status": status, "asked_at": asked_at}
            return Ending(id=question_id, **values, settled_at=at, **more)

        medium: dict[str, Any] = {"by": "ana", "tool": "pay", "risk": "medium"}
        high: dict[str, Any] = {"by": "ana", "tool": "pay", "risk": "high", "source": "person"}
        hour: dict[str, Any] = {"promised_seconds": 3_600}
        wanted = [
            ending("q-3", "confirm", "expired", clock.now(), **hour),
            ending("q-2", "choice", "answered", clock.now(), source="default", **hour),
            ending("r-0", "approval", "declined", half, asked_at=half, channel="mail", **medium),
            ending("q-7", "approval", "answered", half, source="grant", **medium),
            ending("q-9", "open", "exhausted", half, by="ana"),
            ending("q-8", "open", "withdrawn", half, by="agent"),
            ending("q-6", "approval", "answered", half, source="person", approved=True, **medium),
            ending("q-5", "approval", "answered", half, approved=False, channel="web", **high),
            ending("q-4", "approval", "answered", half, approved=True, **high),
            ending("q-1", "open", "answered", half, by="ana", source="person", channel="web"),
        ]
        found = list((await store.endings(workspace, since=began, limit=100)).items)
        # The order of questions that one batch or one sweep settles is not promised.
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        assert [each.settled_at for each in found] == sorted(
            (each.settled_at for each in found), reverse=True
        )
        assert (await store.endings(workspace, since=half + _HOUR / 4, limit=100)).items == found[:2]
        first = await store.endings(workspace, since=began, limit=3)
        assert (first.items, first.since, first.is_complete) == (found[:3], found[2].settled_at, False)
        assert (await store.endings(workspace, since=clock.now() + _HOUR, limit=3)).items == []
        assert (await store.endings(elsewhere, since=began, limit=3)).items == []

    @promise("P2", "P6", "P9")
    async def test_a_question_that_was_settled_long_ago_is_found_as_before(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        began = clock.now()
        pay = Approval.of("pay", {"amount": 1})
        given = [{"key": "a"}, {"form": pay}, {"key": "c"}]
        posted = [await _post(store, workspace, f"q-{n}", **each) for n, each in enumerate(given)]  # type: ignore[arg-type]  # each fits
        approve = check_answer(pay, "approve")
        answers = [
            answer_move(posted[0], Responder("ana"), "this"),
            answer_move(posted[1], Responder("ana"), approve),
        ]
        assert await store.join(posted[0].ref, by="agent", key="joined")
        settled = [each for each in await store.settle(answers) if isinstance(each, Question)]
        events = await _events(store, workspace, 6)
        endings = await store.endings(workspace, since=began, limit=9)
        clock.advance(30 * _DAY)
        await store.tidy(keep=None, limit=1_000_000)
        refs = [each.ref for each in posted]
        assert await store.read(refs) == [*settled, posted[2]]
        assert await store.outcomes(refs) == {each.ref: each.outcome for each in settled}
        for key in ("a", "joined"):
            assert await store.find_by_key(workspace, "agent", key) == settled[0]
        assert not await store.join(posted[2].ref, by="agent", key="joined")
        again = [
            _draft(workspace, "q-6", key="joined"),
            _draft(workspace, "q-8", key="a"),
            _draft(workspace, "q-9"),
            _draft(workspace, "q-0", key="a"),
        ]
        joined, stored, new, same = await store.insert(again)
        assert (joined, stored, same) == (settled[0],) * 3
        assert isinstance(new, Question)
        assert new.status == "pending"
        (other,) = await store.insert([_draft(workspace, "q-7", key="a", choices=["a", "b"])])
        assert isinstance(other, KeyConflict)
        page = await store.settled(Filter(workspace=workspace), after=None, limit=10)
        assert sorted(each.id for each in page.questions) == ["q-0", "q-1"]
        assert await store.endings(workspace, since=began, limit=9) == endings
        assert all(isinstance(each, Refused) for each in await store.settle(answers))
        digest = approve["digest"]
        for request, is_given in (("r-1", True), ("r-2", False), ("r-1", True)):
            used = await store.consume(refs[1], Use(by="agent", digest=digest, request=request))
            assert isinstance(used, UsableApproval) is is_given
        kinds = [event.kind for event in await _events(store, workspace, 8)]
        assert kinds == [*(event.kind for event in events), "asked", "consumed"]

    async def test_what_was_settled_longer_ago_than_it_is_kept_is_gone_with_its_events(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        old = await _post(store, workspace, "q-1", key="a")
        assert await store.join(old.ref, by="agent", key="joined")
        await store.settle([answer_move(old, Responder("ana"), "this")])
        waiting = await _post(store, workspace, "q-2", key="b")
        (read,) = (await _events(store, workspace, 4))[-1:]
        clock.advance(40 * _DAY)
        young = await _post(store, workspace, "q-3")
        await store.settle([withdraw_move(young, "agent")])
        await store.tidy(keep=None, limit=1_000_000)
        assert await _statuses(store, old.ref, waiting.ref, young.ref) == ["answered", "pending", "withdrawn"]
        assert await store.tidy(keep=30 * _DAY, limit=1_000_000) >= 1
        assert await store.read([old.ref]) == [None]
        assert await store.outcomes([old.ref]) == {old.ref: None}
        for key in ("a", "joined"):
            assert await store.find_by_key(workspace, "agent", key) is None
        assert await store.history(old.ref) == []
        page = await store.settled(Filter(workspace=workspace), after=None, limit=10)
        assert [each.id for each in page.questions] == ["q-3"]
        left = await _events(store, workspace, 3)
        assert [(event.question_id, event.kind) for event in left] == [
            ("q-2", "asked"),
            ("q-3", "asked"),
            ("q-3", "withdrawn"),
        ]
        # A follower continues where it was.
        assert await _events(store, workspace, 2, after=read.cursor) == left[1:]
        assert await _statuses(store, waiting.ref, young.ref) == ["pending", "withdrawn"]
        fresh = await _post(store, workspace, "q-4", key="a")
        assert fresh.id == "q-4"
        assert (await _post(store, workspace, "q-1")).status == "pending"
        assert isinstance((await store.settle([answer_move(waiting, Responder("ana"), "this")]))[0], Question)

    async def test_a_question_is_kept_for_as_long_as_its_grant_holds(
        self, store: Store, clock: ManualClock, workspace: str
    ) -> None:
        form = Approval.of("pay", {"amount": 1}, scopes=("once", "always"))
        question = await _post(store, workspace, "q-1", form=form)
        approved = check_answer(form, {"decision": "approve", "scope": "always"})
        move = answer_move(question, Responder("ana"), approved, grant_id="g-1")
        assert isinstance((await store.settle([move]))[0], Question)
        (grant,) = await store.grants(workspace, after=None, limit=10)
        for _ in range(2):
            clock.advance(_HOUR)
            await store.tidy(keep=_HOUR / 2, limit=1_000_000)
            assert await _statuses(store, question.ref) == ["answered"]
        clock.advance(grant.expires_at - clock.now() + _HOUR)
        await store.tidy(keep=_HOUR / 2, limit=1_000_000)
        assert await store.read([question.ref]) == [None]
        assert await store.revoke(workspace, "g-1", by="ana") is not None


class _FailingStore:
    """The store behind a network that can be cut."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_down = False
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        if self.is_down:
            self.failed += 1
            raise StoreUnavailable("The store cannot be reached.")
        return getattr(self._store, name)


async def _post(
    store: Store, workspace: str, question_id: str, **options: Unpack[QuestionOptions]
) -> Question:
    (posted,) = await store.insert([_draft(workspace, question_id, **options)])
    assert isinstance(posted, Question)
    return posted


def _draft(workspace: str, question_id: str, **options: Unpack[QuestionOptions]) -> Draft:
    return compose("Which?", options, new_id=question_id, workspace=workspace, asker="agent", limits=Limits())


async def _events(store: Store, workspace: str, least: int, *, after: str | None = None) -> list[Event]:
    """The events of a feed after a cursor, once there are this many: a store may hold events back for a while."""
    events: list[Event] = []
    async with asyncio.timeout(SOON):
        while True:
            page = await store.feed(workspace, after=events[-1].cursor if events else after, limit=7)
            events += page
            if not page and len(events) >= least:
                return events
            await asyncio.sleep(0 if page else 0.01)


async def _statuses(store: Store, *refs: Ref) -> list[str]:
    return [question.status.value for question in await store.read(refs) if question]


async def _grown(store: Store, before: Mapping[float, int]) -> list[int]:
    now = (await store.queue_stats()).pending
    return [now[age] - before[age] for age in AGES]
