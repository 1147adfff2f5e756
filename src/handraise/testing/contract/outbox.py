"""The outbox: events leave entries, entries become deliveries, and each is tried until it is settled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from handraise.model.deliveries import DeliveryStatus, Try
from handraise.model.events import EventKind
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.lifecycle import answer_move
from handraise.model.people import Responder
from handraise.model.questions import Need, Question, Ref
from handraise.model.timelines import Step
from handraise.ports import Backend, RoutedEntry
from handraise.ports.outbox import PER_MESSAGE, UNCLAIMED
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import final_events
from handraise.testing.contract.callback_cases import CallbackCases
from handraise.testing.contract.failed_delivery_cases import FailedDeliveryCases
from handraise.testing.contract.outbox_steps import (
    TAKE_ALL,
    answer,
    ask,
    new_address,
    new_delivery,
    queue,
    route,
)
from handraise.testing.promises import promise

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


class OutboxContract(CallbackCases, FailedDeliveryCases):
    """Everything that an outbox promises; you define `ports`, which must use the `clock`."""

    @pytest.fixture
    def ports(self) -> Backend:
        raise NotImplementedError("A contract class needs a `ports` fixture.")

    async def test_an_address_is_kept_replaced_and_forgotten(self, ports: Backend, workspace: str) -> None:
        for to in ("ana@old", {"address": "ana@new"}):
            await ports.outbox.put_address(new_address(workspace, to=to))
        await ports.outbox.put_address(new_address(workspace, recipient="group:ops", channel="chat", to=7))
        found = await ports.outbox.addresses(workspace)
        assert [(each.recipient, each.to) for each in found] == [
            ("ana", {"address": "ana@new"}),
            ("group:ops", 7),
        ]
        assert [each.recipient for each in await ports.outbox.addresses(workspace, ["ana", "bob"])] == ["ana"]
        assert await ports.outbox.remove_address(workspace, "ana", "mail", "1")
        assert not await ports.outbox.remove_address(workspace, "ana", "mail", "1")
        assert [each.recipient for each in await ports.outbox.addresses(workspace)] == ["group:ops"]

    async def test_who_somebody_on_a_channel_is(self, ports: Backend, workspace: str) -> None:
        await ports.outbox.put_address(new_address(workspace, channel="chat", id="U7"))
        await ports.outbox.put_address(new_address(workspace, channel="chat", id="U8", recipient="bob"))
        await ports.outbox.put_address(new_address(workspace, channel="mail", id="U7", recipient="cid"))
        assert await ports.outbox.recipients_at(workspace, "chat", "U7") == ["ana"]
        assert await ports.outbox.recipients_at(workspace, "chat", "U9") == []
        assert await ports.outbox.recipients_at(f"{workspace}-2", "chat", "U7") == []

    @promise("P8")
    async def test_whoever_has_an_address_is_a_known_recipient(self, ports: Backend, workspace: str) -> None:
        for place in (workspace, f"{workspace}-2"):
            put = await ports.directory.put_person(place, "ana", name="Ana", email=None, role=Role.MEMBER)
            assert put
        await ports.outbox.put_address(new_address(workspace, channel="chat", recipient="group:room"))
        await ports.outbox.put_address(new_address(f"{workspace}-2", channel="chat", recipient="cid"))
        known = await ports.directory.known_recipients(workspace, ["ana", "bob", "cid", "group:room"])
        assert known == frozenset({"ana", "group:room"})

    async def test_an_address_of_another_workspace_is_not_there(self, ports: Backend, workspace: str) -> None:
        await ports.outbox.put_address(new_address(workspace))
        assert await ports.outbox.addresses(f"{workspace}-2") == []
        assert not await ports.outbox.remove_address(f"{workspace}-2", "ana", "mail", "1")
        await ask(ports, f"{workspace}-2")
        assert await ports.outbox.entries(f"{workspace}-2", limit=10) == []

    async def test_a_policy_stays_where_a_check_of_what_is_there_refuses(
        self, ports: Backend, workspace: str
    ) -> None:
        seen: list[Json] = []

        def check(before: Json) -> None:
            seen.append(before)
            if before is not None:
                raise LookupError("changed")

        await ports.outbox.put_routing(workspace, {"first": 1}, check=check)
        with pytest.raises(LookupError):
            await ports.outbox.put_routing(workspace, {"second": 2}, check=check)
        assert await ports.outbox.routing(workspace) == {"first": 1}
        assert seen == [None, {"first": 1}]
        assert len(await final_events(ports.store, workspace, 1)) == 1

    async def test_a_policy_is_what_was_put_last(self, ports: Backend, workspace: str) -> None:
        assert await ports.outbox.routing(workspace) is None
        policies: list[Json] = [{"rules": []}, {"anybody": {"per_hour": 3}}]
        for policy in policies:
            await ports.outbox.put_routing(workspace, policy)
            assert await ports.outbox.routing(workspace) == policy

    async def test_nothing_is_lined_up_where_nobody_has_an_address(
        self, ports: Backend, workspace: str
    ) -> None:
        await ask(ports, workspace)
        assert await ports.outbox.entries(workspace, limit=10) == []
        assert workspace not in await ports.outbox.workspaces_with_entries(limit=1_000)

    @promise("P1")
    async def test_what_somebody_must_be_told_of_leaves_a_line(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await ports.outbox.put_address(new_address(workspace))
        steps = (Step(_MINUTE, "remind"), Step(2 * _MINUTE, "escalate", ("bob",)), Step(_HOUR, "expire"))
        await ask(ports, workspace, "q-1", steps=steps, recipients=("ana",))
        question = await ask(ports, workspace, "q-2")
        await answer(ports, question)
        needs = (Need(("ana", "cy")), Need(("group:leads",), 1, 1))
        staged = await ask(
            ports, workspace, "q-3", recipients=("ana", "cy", "group:leads"), needs=needs, quorum=3
        )
        await answer(ports, staged)
        await ports.store.settle([answer_move(staged, Responder("lea", frozenset({"leads"})), True)])
        for _ in range(2):
            clock.advance(_MINUTE)
            await ports.store.run_due(limit=10, workspace=workspace)
        clock.advance(_HOUR)
        await ports.store.run_due(limit=10, workspace=workspace)
        entries = await ports.outbox.entries(workspace, limit=10)
        assert [(entry.question_id, entry.kind.value, entry.data) for entry in entries] == [
            ("q-1", "asked", None),
            ("q-2", "asked", None),
            ("q-2", "answered", None),
            ("q-3", "asked", None),
            ("q-3", "voted", {"to": ["group:leads"]}),
            ("q-3", "voted", {"to": ["ana", "cy"]}),
            ("q-1", "reminded", None),
            ("q-1", "escalated", {"to": ["bob"]}),
            ("q-1", "expired", None),
        ]
        assert {entry.now for entry in entries} == {clock.now()}
        assert [entry.number for entry in entries] == sorted({entry.number for entry in entries})
        assert workspace in await ports.outbox.workspaces_with_entries(limit=100_000)
        assert len(await ports.outbox.entries(workspace, limit=2)) == 2

    @promise("P5")
    async def test_an_entry_is_routed_once(self, ports: Backend, clock: ManualClock, workspace: str) -> None:
        await ports.outbox.put_address(new_address(workspace))
        question = await ask(ports, workspace)
        [entry] = await ports.outbox.entries(workspace, limit=10)
        routed = [RoutedEntry(entry=entry, deliveries=[new_delivery(question, clock)])]
        done = await asyncio.gather(*(ports.outbox.route(workspace, routed) for _ in range(10)))
        assert sorted(done) == [0] * 9 + [1]
        assert await ports.outbox.entries(workspace, limit=10) == []
        assert await ports.outbox.deliveries(question.ref) == [new_delivery(question, clock)]

    async def test_for_a_question_that_has_ended_nothing_is_queued(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await ports.outbox.put_address(new_address(workspace))
        question = await ask(ports, workspace)
        asked = await ports.outbox.entries(workspace, limit=10)
        await answer(ports, question)
        await route(ports, workspace, asked, new_delivery(question, clock))
        assert await ports.outbox.deliveries(question.ref) == []

    @promise("P5")
    async def test_what_is_due_is_taken_by_one_and_again_after_its_lease(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2")
        assert workspace in await ports.outbox.workspaces_with_due(limit=100_000)
        taken = await asyncio.gather(*(ports.outbox.take(workspace, **TAKE_ALL) for _ in range(5)))
        assert sorted(each.id for part in taken for each in part) == ["d-1", "d-2"]
        assert {each.tries for part in taken for each in part} == {1}
        assert workspace not in await ports.outbox.workspaces_with_due(limit=100_000)
        clock.advance(_MINUTE)
        again = await ports.outbox.take(workspace, **TAKE_ALL)
        assert [(each.tries, each.due_at, each.question) for each in again] == [
            (2, clock.now() + _MINUTE, question.ref)
        ] * 2

    async def test_a_full_lane_holds_up_nobody_else(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await queue(ports, clock, workspace, *(f"slow-{n}" for n in range(5)), rate_limit_key="slow")
        await queue(ports, clock, workspace, "d-1", question="q-2", rate_limit_key="quick")
        some = await ports.outbox.take(workspace, **TAKE_ALL | {"per_key": 2})
        assert sorted(each.rate_limit_key for each in some) == ["quick", "slow", "slow"]
        assert await ports.outbox.take(workspace, **TAKE_ALL | {"free_slots": {"slow": 0}}) == []
        assert await ports.outbox.take(workspace, **TAKE_ALL | {"channels": ["chat"]}) == []
        assert len(await ports.outbox.take(workspace, **TAKE_ALL | {"limit": 2})) == 2

    async def test_a_bundle_is_taken_together(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await queue(ports, clock, workspace, "d-1", "d-2", "d-3", bundle="mail ana 9")
        taken = await ports.outbox.take(workspace, **TAKE_ALL | {"per_key": 1, "limit": 1})
        assert sorted(each.id for each in taken) == ["d-1", "d-2", "d-3"]

    async def test_what_is_not_due_yet_waits(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await queue(ports, clock, workspace, "d-1", due_at=clock.now() + _HOUR)
        assert await ports.outbox.take(workspace, **TAKE_ALL) == []
        clock.advance(_HOUR)
        assert len(await ports.outbox.take(workspace, **TAKE_ALL)) == 1

    async def test_what_was_sent_stays_until_its_question_ends_and_is_then_updated(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2", due_at=None)
        [first, _] = await ports.outbox.deliveries(question.ref)
        assert first.due_at is None
        question = await queue(ports, clock, workspace, "d-3", "d-4", question="q-2")
        taken = {each.id: each for each in await ports.outbox.take(workspace, **TAKE_ALL | {"limit": 1})}
        [(_, one)] = taken.items()
        await ports.outbox.record([Try(delivery=one, status=DeliveryStatus.SENT, receipt={"message": 9})])
        clock.advance(_HOUR)
        await answer(ports, question)
        ended = await ports.outbox.entries(workspace, limit=10)
        await ports.outbox.route(workspace, [RoutedEntry(entry=entry, settled=True) for entry in ended])
        [sent, unsent] = sorted(
            await ports.outbox.deliveries(question.ref), key=lambda each: each.id != one.id
        )
        assert (sent.status, sent.receipt, sent.tries, sent.stale) == ("sent", {"message": 9}, 0, True)
        assert sent.due_at == clock.now()
        assert (unsent.status, unsent.due_at) == ("unsent", None)
        [again] = await ports.outbox.take(workspace, **TAKE_ALL)
        await ports.outbox.record([Try(delivery=again, status=DeliveryStatus.UPDATED)])
        [updated] = [each for each in await ports.outbox.deliveries(question.ref) if each.id == one.id]
        assert (updated.status, updated.due_at, updated.receipt) == ("updated", None, {"message": 9})

    async def test_what_was_updated_is_due_again_when_a_report_comes(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2")
        taken = await ports.outbox.take(workspace, **TAKE_ALL)
        await ports.outbox.record([Try(delivery=each, status=DeliveryStatus.SENT) for each in taken])
        await answer(ports, question)
        await _route_ends(ports, workspace)
        one, other = sorted(await ports.outbox.take(workspace, **TAKE_ALL), key=lambda each: each.id)
        await ports.outbox.record([Try(delivery=one, status=DeliveryStatus.UPDATED, receipt={"message": 9})])
        clock.advance(_MINUTE / 2)
        assert await ports.store.report(question.ref, by="bot", record={"ok": True, "text": "done"})
        assert await _route_ends(ports, workspace) == ["reported"]
        found = sorted(await ports.outbox.deliveries(question.ref), key=lambda each: each.id)
        assert [(each.status, each.due_at) for each in found] == [
            ("updated", clock.now()),
            ("sent", clock.now()),
        ]
        assert found[0].receipt == {"message": 9}
        # An update that was under way when the report came does not have it, and is made again.
        await ports.outbox.record([Try(delivery=other, status=DeliveryStatus.UPDATED)])
        again = await ports.outbox.take(workspace, **TAKE_ALL)
        assert sorted(each.id for each in again) == ["d-1", "d-2"]
        await ports.outbox.record([Try(delivery=each, status=DeliveryStatus.UPDATED) for each in again])
        assert {(each.status, each.due_at) for each in await ports.outbox.deliveries(question.ref)} == {
            ("updated", None)
        }

    async def test_what_became_stale_while_it_was_sent_is_updated(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2")
        sending, failing = sorted(await ports.outbox.take(workspace, **TAKE_ALL), key=lambda each: each.id)
        await answer(ports, question)
        ended = await ports.outbox.entries(workspace, limit=10)
        await ports.outbox.route(workspace, [RoutedEntry(entry=entry, settled=True) for entry in ended])
        await ports.outbox.record(
            [
                Try(delivery=sending, status=DeliveryStatus.SENT),
                Try(delivery=failing, status=DeliveryStatus.QUEUED, problem="busy", again_after=_HOUR),
            ]
        )
        [one, other] = sorted(await ports.outbox.deliveries(question.ref), key=lambda each: each.id)
        assert (one.status, one.due_at) == ("sent", clock.now())
        assert (other.status, other.due_at) == ("unsent", None)

    async def test_what_may_have_arrived_is_updated_all_the_same(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2")
        again, over = sorted(await ports.outbox.take(workspace, **TAKE_ALL), key=lambda each: each.id)
        unknown = DeliveryStatus.UNKNOWN
        await ports.outbox.record(
            [
                Try(delivery=again, status=unknown, problem="silence", again_after=_HOUR),
                Try(delivery=over, status=unknown, problem="silence"),
            ]
        )
        assert (await _read(ports, question)).unreached_at is None
        await answer(ports, question)
        ended = await ports.outbox.entries(workspace, limit=10)
        await ports.outbox.route(workspace, [RoutedEntry(entry=entry, settled=True) for entry in ended])
        [first, second] = sorted(await ports.outbox.deliveries(question.ref), key=lambda each: each.id)
        assert (first.status, first.stale, first.due_at) == ("unknown", True, clock.now() + _HOUR)
        assert (second.status, second.stale, second.due_at) == ("unknown", True, clock.now())

    async def test_an_ending_leaves_a_line_where_somebody_was_told(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1")
        assert await ports.outbox.remove_address(workspace, "ana", "mail", "1")
        await answer(ports, question)
        assert [entry.kind for entry in await ports.outbox.entries(workspace, limit=10)] == [
            EventKind.ANSWERED
        ]
        await ask(ports, workspace, "q-2")
        assert len(await ports.outbox.entries(workspace, limit=10)) == 1

    @promise("P7")
    async def test_an_entry_that_reaches_nobody_is_used_up_with_its_event(
        self, ports: Backend, workspace: str
    ) -> None:
        await ports.outbox.put_address(new_address(workspace))
        question = await ask(ports, workspace)
        entries = await ports.outbox.entries(workspace, limit=10)
        for _ in range(2):
            await ports.outbox.route(workspace, [RoutedEntry(entry=entry, nobody=True) for entry in entries])
        kinds = [event.kind for event in await ports.store.history(question.ref)]
        assert kinds == [EventKind.ASKED, EventKind.UNREACHED]

    async def test_a_message_holds_so_many_of_a_bundle_and_an_update_is_alone(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        ids = [f"d-{number:03}" for number in range(PER_MESSAGE + 5)]
        question = await queue(ports, clock, workspace, *ids, bundle="mail ana 9")
        one_message = TAKE_ALL | {"per_key": 1, "limit": 1}
        first = await ports.outbox.take(workspace, **one_message)
        second = await ports.outbox.take(workspace, **one_message)
        assert (len(first), len(second)) == (PER_MESSAGE, 5)
        await ports.outbox.record(
            [Try(delivery=each, status=DeliveryStatus.SENT) for each in (*first, *second)]
        )
        await answer(ports, question)
        ended = await ports.outbox.entries(workspace, limit=10)
        await ports.outbox.route(workspace, [RoutedEntry(entry=entry, settled=True) for entry in ended])
        assert len(await ports.outbox.take(workspace, **one_message)) == 1

    async def test_what_no_process_has_a_channel_for_is_taken_in_the_end(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        await queue(ports, clock, workspace, "d-1")
        other = TAKE_ALL | {"channels": ["chat"]}
        assert await ports.outbox.take(workspace, **other) == []
        clock.advance(UNCLAIMED)
        assert len(await ports.outbox.take(workspace, **other)) == 1

    async def test_a_failed_try_comes_again_when_it_says(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1")
        [taken] = await ports.outbox.take(workspace, **TAKE_ALL)
        tried = Try(delivery=taken, status=DeliveryStatus.QUEUED, problem="busy", again_after=_HOUR)
        await ports.outbox.record([tried])
        [found] = await ports.outbox.deliveries(question.ref)
        assert (found.due_at, found.problem, found.status) == (clock.now() + _HOUR, "busy", "queued")

    @promise("P5")
    async def test_whoever_took_it_over_records_it(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1")
        [first] = await ports.outbox.take(workspace, **TAKE_ALL)
        clock.advance(_MINUTE)
        [second] = await ports.outbox.take(workspace, **TAKE_ALL)
        await ports.outbox.record([Try(delivery=first, status=DeliveryStatus.FAILED, problem="late")])
        [found] = await ports.outbox.deliveries(question.ref)
        assert (found.status, found.problem) == ("queued", None)
        await ports.outbox.record([Try(delivery=second, status=DeliveryStatus.SENT)])
        [found] = await ports.outbox.deliveries(question.ref)
        assert (found.status, found.sent_at) == ("sent", clock.now())

    @promise("P7")
    async def test_that_nobody_could_be_reached_is_said_once_and_taken_back(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await queue(ports, clock, workspace, "d-1", "d-2", steps=(Step(_MINUTE, "remind"),))
        one, other = await ports.outbox.take(workspace, **TAKE_ALL)
        await ports.outbox.record([Try(delivery=one, status=DeliveryStatus.FAILED, problem="gone")])
        assert (await _read(ports, question)).unreached_at is None
        await ports.outbox.record([Try(delivery=other, status=DeliveryStatus.UNKNOWN, problem="silence")])
        assert (await _read(ports, question)).unreached_at == clock.now()
        assert not await ports.outbox.mark_unreached(question.ref)
        kinds = [event.kind for event in await ports.store.history(question.ref)]
        assert kinds == [EventKind.ASKED, EventKind.UNREACHED]
        clock.advance(_MINUTE)
        await ports.store.run_due(limit=10, workspace=workspace)
        entries = await ports.outbox.entries(workspace, limit=10)
        await route(ports, workspace, entries, new_delivery(question, clock, "d-3"))
        [third] = await ports.outbox.take(workspace, **TAKE_ALL)
        await ports.outbox.record([Try(delivery=third, status=DeliveryStatus.SENT)])
        assert (await _read(ports, question)).unreached_at is None

    async def test_a_question_without_deliveries_is_unreached_while_it_is_pending(
        self, ports: Backend, workspace: str
    ) -> None:
        question = await ask(ports, workspace)
        assert await ports.outbox.mark_unreached(question.ref)
        ended = await ask(ports, workspace, "q-2")
        await answer(ports, ended)
        assert not await ports.outbox.mark_unreached(ended.ref)
        assert not await ports.outbox.mark_unreached(Ref(workspace, "nowhere"))

    async def test_recent_deliveries_are_counted_by_recipient_and_asker(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        began = clock.now()
        await queue(ports, clock, workspace, "d-1")
        clock.advance(_HOUR)
        await queue(ports, clock, workspace, "d-2", "d-3", question="q-2")
        await queue(ports, clock, workspace, "d-4", question="q-3", bundle="waits")
        recent = await ports.outbox.recent(workspace, since=clock.now())
        assert (dict(recent.recipients), dict(recent.askers)) == ({"ana": 2}, {"bot": 2})
        assert dict((await ports.outbox.recent(workspace, since=began)).recipients) == {"ana": 3}

    async def test_deliveries_go_with_a_question_that_is_not_kept(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        gone = await queue(ports, clock, workspace, "d-1")
        stays = await queue(ports, clock, workspace, "d-2", question="q-2")
        await answer(ports, gone)
        (taken,) = [each for each in await ports.outbox.take(workspace, **TAKE_ALL) if each.id == "d-1"]
        clock.advance(_HOUR)
        await ports.store.tidy(keep=_MINUTE, limit=1_000_000)
        assert await ports.outbox.deliveries(gone.ref) == []
        assert [each.id for each in await ports.outbox.deliveries(stays.ref)] == ["d-2"]
        await ports.outbox.record([Try(delivery=taken, status=DeliveryStatus.SENT)])
        assert await ports.outbox.deliveries(gone.ref) == []


async def _route_ends(ports: Backend, workspace: str) -> list[str]:
    """Route entries about ends and reports; return their kinds."""
    entries = await ports.outbox.entries(workspace, limit=10)
    await ports.outbox.route(workspace, [RoutedEntry(entry=entry, settled=True) for entry in entries])
    return [entry.kind.value for entry in entries]


async def _read(ports: Backend, question: Question) -> Question:
    [found] = await ports.store.read([question.ref])
    assert found is not None
    return found
