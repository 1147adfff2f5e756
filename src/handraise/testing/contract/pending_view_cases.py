"""Views of pending questions: what each has, its filters, its orders, and its numbers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Desk, Escalation, Question, Responder, Timeline
from handraise.questions import VIEWS, Order, PendingFilters, ViewCounts, ViewName
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_HOUR = timedelta(hours=1)
_ANA = Responder("ana", groups=frozenset({"ops"}))
_ORDERS: tuple[Order, ...] = ("age", "urgency", "newest", "expiry")
_OWN: tuple[ViewName, ...] = ("mine", "vote_missing", "snoozed")


class PendingViewCases(ContractFixtures):
    """A person finds the part of their inbox that they want, and only questions of their inbox."""

    @promise("P2")
    async def test_every_view_has_its_questions_and_their_number(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        async def post(prompt: str, **options: Any) -> Question:
            return await desk.post(prompt, **{"recipients": ["group:ops"], **options})

        to_zoe = Timeline(escalate=(Escalation(after=_HOUR, to=("zoe",)),))
        plain = await post("Plain?")
        risky = await post("Risky?", form=Approval.of("pay", {}, risk="high"))
        safe = await post("Safe?", form=Approval.of("mail", {}, risk="low"))
        soon = await post("Soon?", expires_in=_HOUR + timedelta(minutes=30))
        late = await post("Late?", timeline=to_zoe)
        named = await post("Named?", recipients=["ana"])
        taken = await post("Taken?")
        both = await post("Both?", quorum=2)
        voted = await post("Voted?", quorum=2)
        back = await post("Back?", replies="program")
        snoozed = await post("Snoozed?", recipients=["group:ops", "bo"])
        others = await post("Others?", recipients=["bo"])
        clock.advance(_HOUR)
        await desk.run_due()
        await desk.take(taken.id, by=_ANA)
        await desk.answer(voted.id, "a", by=_ANA)
        await desk.ask_back(back.id, "Why?", by=_ANA)
        await desk.set_aside(snoozed.id, by=_ANA)
        expected: dict[ViewName, set[str]] = {
            "urgent": {risky.id, soon.id, late.id},
            "approvals": {risky.id, safe.id},
            "mine": {named.id, taken.id},
            "vote_missing": {both.id},
            "agents_turn": {back.id},
            "snoozed": {snoozed.id},
        }
        waiting = {each.id for each in (plain, risky, safe, soon, late, named, taken, both, voted, back)}
        for place, view in enumerate(VIEWS):
            order = _ORDERS[place % len(_ORDERS)]
            page = await desk.list_pending(recipient=_ANA, filters=PendingFilters(view=view), order=order)
            assert (view, {each.id for each in page}) == (view, expected[view])
        counts = await desk.count_views(_ANA)
        assert counts == ViewCounts(len(waiting), {view: len(expected[view]) for view in VIEWS})
        everything = await desk.list_pending(filters=PendingFilters(view="approvals"))
        assert [each.id for each in everything] == [risky.id, safe.id]
        newest = await desk.list_pending(recipient=_ANA, order="newest")
        assert {each.id for each in newest} == waiting
        assert others.id not in waiting
        await desk.release(taken.id, by=_ANA)
        await desk.put_back(snoozed.id, by=_ANA)
        counts = await desk.count_views(_ANA)
        assert (counts.waiting, counts.views["mine"], counts.views["snoozed"]) == (len(waiting) + 1, 1, 0)
        for view in _OWN:
            with pytest.raises(ValueError, match="recipient"):
                await desk.list_pending(filters=PendingFilters(view=view))

    async def test_filters_and_orders_of_pending_questions(self, desk: Desk, clock: ManualClock) -> None:
        old = await desk.post("Old?", expires_in=timedelta(days=3), recipients=["ana"], conversation="c")
        clock.advance(_HOUR)
        pay = await desk.post("Pay?", form=Approval.of("pay", {}), recipients=["ana"], expires_in=_HOUR)
        mail = await desk.post("Mail?", form=Approval.of("mail", {}, risk="high"), recipients=["ana"])
        other = await desk.scoped(asker="other").post("Yes?", choices=["a", "b"], recipients=["ana", "bo"])
        found: list[tuple[PendingFilters, list[Question]]] = [
            (PendingFilters(kind="approval"), [pay, mail]),
            (PendingFilters(kind="choice"), [other]),
            (PendingFilters(risk="high"), [mail]),
            (PendingFilters(risk="medium"), [pay]),
            (PendingFilters(tool="mail"), [mail]),
            (PendingFilters(expires_within=2 * _HOUR), [pay]),
            (PendingFilters(older_than=_HOUR), [old]),
            (PendingFilters(kind="approval", tool="other"), []),
        ]
        for filters, questions in found:
            for recipient in (None, "ana"):
                page = await desk.list_pending(recipient=recipient, filters=filters)
                assert (filters, [each.id for each in page]) == (filters, [each.id for each in questions])
        only = PendingFilters(kind="choice")
        assert (await desk.list_pending(recipient="ana", filters=only, asker="agent")).items == []
        assert [each.id for each in await desk.list_pending(filters=only, asker="other")] == [other.id]
        assert (await desk.list_pending(filters=only, conversation="c")).items == []
        orders: dict[Order, list[Question]] = {
            "newest": [other, mail, pay, old],
            "age": [old, pay, mail, other],
            "expiry": [pay, old, mail, other],
        }
        for order, questions in orders.items():
            for recipient in (None, "ana"):
                first = await desk.list_pending(order=order, recipient=recipient, limit=2)
                rest = await desk.list_pending(order=order, recipient=recipient, limit=2, after=first.next)
                assert (order, [each.id for each in (*first, *rest)]) == (
                    order,
                    [each.id for each in questions],
                )
        with pytest.raises(ValueError, match="cursor"):
            await desk.list_pending(order="newest", after="nonsense")
