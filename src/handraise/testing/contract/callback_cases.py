"""Callbacks: stored with their questions, due at the end, and nobody else's."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

import pytest

from handraise.model.callbacks import Callback
from handraise.model.deliveries import Delivery, DeliveryStatus, Try
from handraise.model.errors import KeyConflict
from handraise.model.forms import Confirm
from handraise.model.lifecycle import answer_move
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question
from handraise.model.rulings import Ending, Ruling
from handraise.model.timelines import Step
from handraise.ports import Backend, Inserted, RoutedEntry
from handraise.testing.clock import ManualClock
from handraise.testing.contract.backend import ContractFixtures
from handraise.testing.promises import promise

_MINUTE = timedelta(minutes=1)
_TAKEN: dict[str, Any] = {
    "channels": ["webhook"],
    "free_slots": {},
    "per_key": 8,
    "limit": 10,
    "lease": _MINUTE,
}


def _callback(number: int = 1) -> Callback:
    secret = "whsec_" + base64.b64encode(bytes([number]) * 32).decode()
    return Callback(f"https://agent.example/{number}", secret)


def _draft(workspace: str, question_id: str = "q-1", **options: Any) -> Draft:
    given: dict[str, Any] = {"asker": "bot", "callback": _callback()} | options
    return Draft(id=question_id, workspace=workspace, prompt="Go?", form=Confirm(), **given)


async def _inserted(ports: Backend, draft: Draft) -> Inserted:
    [result] = await ports.store.insert([draft])
    return result


async def _asked(ports: Backend, draft: Draft) -> Question:
    question = await _inserted(ports, draft)
    assert isinstance(question, Question)
    return question


async def _end(ports: Backend, question: Question) -> None:
    [moved] = await ports.store.settle([answer_move(question, Responder("ana"), True)])
    assert isinstance(moved, Question)
    await _route_all(ports, question.workspace)


async def _route_all(ports: Backend, workspace: str) -> list[str]:
    entries = await ports.outbox.entries(workspace, limit=10)
    await ports.outbox.route(workspace, [RoutedEntry(entry=each, settled=True) for each in entries])
    return [each.kind.value for each in entries]


async def _take(ports: Backend, workspace: str) -> list[Delivery]:
    return list(await ports.outbox.take(workspace, **_TAKEN))


class CallbackCases(ContractFixtures):
    """What a store and its outbox promise about callbacks."""

    @pytest.fixture
    def ports(self) -> Backend:
        raise NotImplementedError("A contract class needs a `ports` fixture.")

    @promise("P1")
    async def test_a_callback_is_due_when_its_question_has_ended_and_not_before(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await _asked(ports, _draft(workspace))
        (waiting,) = await ports.outbox.deliveries(question.ref)
        assert (waiting.status, waiting.due_at, waiting.recipient) == (DeliveryStatus.WAITING, None, "bot")
        assert (waiting.channel, waiting.rate_limit_key) == ("webhook", "callback agent.example:443")
        clock.advance(timedelta(days=9))
        assert await _take(ports, workspace) == []
        await _end(ports, question)
        (due,) = await _take(ports, workspace)
        assert (due.id, due.is_callback) == (waiting.id, True)
        assert due.to == {"url": _callback().url, "secret": _callback().secret}
        assert due.created_at == clock.now()  # else it would be nobody's after a day
        again = Try(delivery=due, status=DeliveryStatus.WAITING, problem="no", again_after=_MINUTE)
        await ports.outbox.record([again])
        clock.advance(_MINUTE)
        (second,) = await _take(ports, workspace)
        assert (second.id, second.tries) == (due.id, 2)
        await ports.outbox.record([Try(delivery=second, status=DeliveryStatus.UPDATED)])
        clock.advance(timedelta(days=1))
        assert await _take(ports, workspace) == []

    @promise("P1")
    async def test_a_callback_is_due_however_its_question_ends(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        expiring = await _asked(ports, _draft(workspace, steps=(Step(_MINUTE, "expire"),)))
        replaced = await _asked(ports, _draft(workspace, "q-2"))
        await _asked(ports, _draft(workspace, "q-3", replaces="q-2"))
        clock.advance(2 * _MINUTE)
        await ports.store.run_due(limit=100)
        assert sorted(await _route_all(ports, workspace)) == ["expired", "withdrawn"]
        assert {each.question_id for each in await _take(ports, workspace)} == {expiring.id, replaced.id}

    async def test_the_callback_of_a_question_that_the_policy_settles_is_due_at_once(
        self, ports: Backend, workspace: str
    ) -> None:
        ending = Ending("answered", {"value": True, "by": "policy:small", "source": "policy"})
        question = await _asked(ports, _draft(workspace, ruling=Ruling(version=0, ending=ending)))
        assert question.outcome is not None
        await _route_all(ports, workspace)
        assert [each.question_id for each in await _take(ports, workspace)] == [question.id]

    @promise("P9")
    async def test_a_question_that_is_posted_again_keeps_its_first_callback(
        self, ports: Backend, workspace: str
    ) -> None:
        first = await _asked(ports, _draft(workspace, key="k"))
        again = await _asked(ports, _draft(workspace, "q-2", key="k", callback=_callback(2)))
        same = await _asked(ports, _draft(workspace, key="k", callback=_callback(3)))
        assert first.id == again.id == same.id
        silent = await _asked(ports, _draft(workspace, "q-5", callback=None))
        await _asked(ports, _draft(workspace, "q-5", callback=_callback(2)))
        await _end(ports, first)
        await _end(ports, silent)
        (due,) = await _take(ports, workspace)
        assert (due.question_id, due.to) == (
            first.id,
            {"url": _callback().url, "secret": _callback().secret},
        )

    @promise("P8")
    async def test_nobody_else_is_called_back(self, ports: Backend, workspace: str) -> None:
        question = await _asked(ports, _draft(workspace, callback=None))
        stranger = _draft(workspace, asker="eve", callback=_callback(2))
        assert isinstance(await _inserted(ports, stranger), KeyConflict)
        other = await _asked(ports, _draft(f"{workspace}-2", callback=_callback(2)))
        await _end(ports, question)
        assert await ports.outbox.deliveries(question.ref) == []
        assert await _take(ports, workspace) == []
        assert len(await ports.outbox.deliveries(other.ref)) == 1

    @promise("P8")
    async def test_two_posts_of_one_id_in_one_call_are_one_callback(
        self, ports: Backend, workspace: str
    ) -> None:
        mine, theirs = _draft(workspace), _draft(workspace, asker="eve", callback=_callback(2))
        await ports.store.insert([mine, theirs])
        (waiting,) = await ports.outbox.deliveries(mine.ref)
        assert waiting.recipient == "bot"
        silent = _draft(workspace, "q-2", callback=None)
        await ports.store.insert([silent, _draft(workspace, "q-2", asker="eve", callback=_callback(2))])
        assert await ports.outbox.deliveries(silent.ref) == []

    async def test_no_question_gives_its_callback_back(self, ports: Backend, workspace: str) -> None:
        question = await _asked(ports, _draft(workspace))
        [found] = await ports.store.read([question.ref])
        assert found is not None
        assert (question.callback, found.callback) == (None, None)
        events = await ports.store.history(question.ref)
        assert "whsec_" not in repr((question, found, events, await ports.outbox.deliveries(question.ref)))

    async def test_a_callback_is_no_message_to_people(
        self, ports: Backend, clock: ManualClock, workspace: str
    ) -> None:
        question = await _asked(ports, _draft(workspace))
        assert await ports.outbox.mark_unreached(question.ref)
        recent = await ports.outbox.recent(workspace, since=clock.now() - _MINUTE)
        assert (dict(recent.recipients), dict(recent.askers)) == ({}, {})

    async def test_the_erasure_of_a_person_with_the_askers_name_leaves_its_callback(
        self, ports: Backend, workspace: str
    ) -> None:
        question = await _asked(ports, _draft(workspace))
        await ports.ledger.erase_person(workspace, "bot")
        await _end(ports, question)
        assert [each.question_id for each in await _take(ports, workspace)] == [question.id]
