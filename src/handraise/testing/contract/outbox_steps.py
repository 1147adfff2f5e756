"""Steps of the outbox's cases: a question is asked, its deliveries are queued, and all of them are taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from handraise.model.deliveries import Address, Delivery
from handraise.model.forms import Confirm
from handraise.model.lifecycle import answer_move
from handraise.model.people import Responder
from handraise.model.questions import Draft, Question
from handraise.model.timelines import Step
from handraise.ports import Backend, OutboxEntry, RoutedEntry
from handraise.testing.clock import ManualClock

TAKE_ALL: dict[str, Any] = {
    "channels": ["mail", "chat"],
    "free_slots": {},
    "per_key": 100,
    "limit": 100,
    "lease": timedelta(minutes=1),
}
"""Takes every delivery that is due."""


def new_address(workspace: str, **changes: Any) -> Address:
    """Where Ana gets mail."""
    given: dict[str, Any] = {
        "recipient": "ana",
        "channel": "mail",
        "id": "1",
        "to": "ana@example.org",
    } | changes
    return Address(workspace=workspace, **given)


def new_delivery(
    question: Question, clock: ManualClock, delivery_id: str = "d-1", **changes: Any
) -> Delivery:
    """A delivery to Ana that is due now."""
    given: dict[str, Any] = {"channel": "mail", "rate_limit_key": "mail", "due_at": clock.now()} | changes
    return Delivery(
        workspace=question.workspace,
        id=delivery_id,
        question_id=question.id,
        recipient="ana",
        to={"address": "ana@example.org"},
        reason="asked",
        created_at=clock.now(),
        **given,
    )


async def ask(ports: Backend, workspace: str, question_id: str = "q-1", **options: Any) -> Question:
    """Store a question that anybody may answer."""
    draft = Draft(id=question_id, workspace=workspace, asker="bot", prompt="Go?", form=Confirm(), **options)
    [question] = await ports.store.insert([draft])
    assert isinstance(question, Question)
    return question


async def answer(ports: Backend, question: Question) -> None:
    """End a question with Ana's answer."""
    [moved] = await ports.store.settle([answer_move(question, Responder("ana"), True)])
    assert isinstance(moved, Question)


async def route(
    ports: Backend, workspace: str, entries: Sequence[OutboxEntry], *deliveries: Delivery
) -> None:
    """Make these deliveries of the first entry, and none of the others."""
    first, *others = entries
    routed = [
        RoutedEntry(entry=first, deliveries=deliveries),
        *(RoutedEntry(entry=entry) for entry in others),
    ]
    await ports.outbox.route(workspace, routed)


async def queue(
    ports: Backend,
    clock: ManualClock,
    workspace: str,
    *ids: str,
    question: str = "q-1",
    steps: tuple[Step, ...] = (),
    **changes: Any,
) -> Question:
    """A question whose one entry was routed to these deliveries."""
    await ports.outbox.put_address(new_address(workspace))
    asked = await ask(ports, workspace, question, steps=steps)
    entries = await ports.outbox.entries(workspace, limit=10)
    planned = [new_delivery(asked, clock, each, **changes) for each in ids]
    await route(ports, workspace, entries, *planned)
    return asked
