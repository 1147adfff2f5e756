"""Telling people: through which channels, how often, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from handraise import Approval, Confirm, Escalation, Timeline
from handraise.desk.dispatcher import MAX_PER_KEY, Dispatcher, run_dispatcher
from handraise.desk.engine import Engine
from handraise.desk.ids import uuid7_ids
from handraise.desk.local_desk import LocalDesk
from handraise.desk_factory import open_backend, open_bus
from handraise.events import EventKind
from handraise.model.away import Away
from handraise.model.deliveries import Address, Delivery
from handraise.model.drafting import Limits
from handraise.model.group_calendars import Shift
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.questions import Draft, Need
from handraise.model.timelines import Step
from handraise.model.working_hours import WorkingHours
from handraise.ports import Backend, RoutedEntry
from handraise.ports.channel import Message, NotSent
from handraise.testing import ManualClock

WITHIN = 10.0
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass
class Post:
    """A channel that does what it is told and keeps what it was given."""

    name: str = "mail"
    private: bool = False
    patience: timedelta = timedelta(days=1)
    sent: list[Message] = field(default_factory=list)
    updated: list[tuple[Message, Json]] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)

    def rate_limit_key(self, to: Json) -> str | None:
        return None if to is None else f"{self.name}:{str(to).rpartition('@')[2]}"

    async def send(self, message: Message) -> Json:
        self.sent.append(message)
        if str(message.to) in self.hanging:
            await asyncio.Event().wait()
        if self.failing:
            raise self.failing.pop(0)
        return {"number": len(self.sent)}

    async def update(self, message: Message, receipt: Json) -> None:
        self.updated.append((message, receipt))
        if self.failing:
            raise self.failing.pop(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def ports(clock: ManualClock) -> AsyncIterator[Backend]:
    async with open_backend("memory:", clock=clock) as ports:
        for person in ("ann", "bob", "cid"):
            await ports.directory.put_person("w", person, name=person, email=None, role=Role.MEMBER)
        await ports.directory.put_group("w", "ops", ["ann", "bob"])
        yield ports


@pytest.fixture
async def engine(ports: Backend) -> AsyncIterator[Engine]:
    engine = Engine(ports.store, ports.bus, poll_interval=0.05)
    yield engine
    await engine.close()


@pytest.fixture
def desk(engine: Engine) -> LocalDesk:
    return LocalDesk(engine, workspace="w", asker="bot", new_id=uuid7_ids(), limits=Limits())


@pytest.fixture
def mail() -> Post:
    return Post()


@pytest.fixture
def chat() -> Post:
    return Post("chat")


@pytest.fixture
def dispatcher(ports: Backend, engine: Engine, mail: Post, chat: Post) -> Dispatcher:
    return Dispatcher(engine, ports.outbox, ports.directory, [mail, chat], link_to=link_to, within=0.2)


async def link_to(delivery: Delivery) -> str:
    return f"http://desk.example/questions/{delivery.question_id}"


async def address(ports: Backend, recipient: str, channel: str = "mail", to: Json = "") -> None:
    given = to if to != "" else f"{recipient}@example.org"
    await ports.outbox.put_address(
        Address(workspace="w", recipient=recipient, channel=channel, id="1", to=given)
    )


async def dispatch(dispatcher: Dispatcher) -> None:
    await dispatcher.work()
    await dispatcher.finish()


async def statuses(ports: Backend, desk: LocalDesk, question_id: str) -> dict[str, str]:
    question = await desk.get(question_id)
    return {each.recipient: each.status.value for each in await ports.outbox.deliveries(question.ref)}


async def test_a_recipient_is_told_and_told_how_it_ended(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    await address(ports, "bob")
    question = await desk.post("Which?", choices=["a", "b"], recipients=["ann"])
    await dispatch(dispatcher)
    [message] = mail.sent
    assert (message.recipient, message.to, message.person) == ("ann", "ann@example.org", "ann")
    [notice] = message.notices
    assert (notice.question.id, notice.reason, notice.delivery_id) == (question.id, "asked", message.id)
    assert notice.link == f"http://desk.example/questions/{question.id}"
    await dispatch(dispatcher)
    assert len(mail.sent) == 1
    await desk.answer(question.id, "a", by="ann")
    await dispatch(dispatcher)
    [(told, receipt)] = mail.updated
    assert (told.id, receipt) == (message.id, {"number": 1})
    assert told.notices[0].question.outcome is not None
    assert await statuses(ports, desk, question.id) == {"ann": "updated"}


async def test_a_question_of_another_process_is_sent_at_once_over_nats(
    ports: Backend, mail: Post, nats: str
) -> None:
    await address(ports, "ann")
    async with open_bus(nats) as here, open_bus(nats) as there:
        sender, asker = (Engine(ports.store, bus, poll_interval=100) for bus in (here, there))
        desk = LocalDesk(asker, workspace="w", asker="bot", new_id=uuid7_ids(), limits=Limits())
        async with (
            run_dispatcher(sender, ports.outbox, ports.directory, [mail], link_to=link_to),
            asyncio.timeout(WITHIN),
        ):
            await asyncio.sleep(0.2)  # it has looked once, and looks again when it hears of something
            await desk.post("Which?", recipients=["ann"])
            while not mail.sent:
                await asyncio.sleep(0.01)
        for engine in (sender, asker):
            await engine.close()


async def test_those_who_were_told_are_told_what_came_of_it(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    late, soon, unasked = [await desk.post(f"Which {each}?", recipients=["ann"]) for each in range(3)]
    await dispatch(dispatcher)
    await desk.answer(late.id, "a", by="ann")
    await dispatch(dispatcher)
    await desk.report(late.id, ok=True, text="done")
    await dispatch(dispatcher)
    assert [each.notices[0].question.report is not None for each, _ in mail.updated] == [False, True]
    mail.updated.clear()
    # One message is enough if the report is there before the message about the end.
    await desk.answer(soon.id, "a", by="ann")
    await desk.report(soon.id, ok=False, text="failed")
    for _ in range(3):
        await dispatch(dispatcher)
    [(message, receipt)] = mail.updated
    assert message.notices[0].question.report is not None
    assert isinstance(receipt, dict)
    assert receipt.keys() == {"number"}
    # A second time the message has it already, also if the first time was recorded late.
    mail.updated.clear()
    await desk.answer(unasked.id, "a", by="ann")
    await ports.outbox.route(
        "w", [RoutedEntry(entry=each, settled=True) for each in await ports.outbox.entries("w", limit=9)]
    )
    await desk.report(unasked.id, ok=True, text="done")
    await dispatcher.work()
    await dispatcher.finish()
    for _ in range(3):
        await dispatch(dispatcher)
    assert len(mail.updated) == 1
    assert await statuses(ports, desk, unasked.id) == {"ann": "updated"}


async def test_a_report_that_cannot_be_delivered_is_tried_again(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    question = await desk.post("Which?", recipients=["ann"])
    await dispatch(dispatcher)
    await desk.answer(question.id, "a", by="ann")
    await dispatch(dispatcher)
    await desk.report(question.id, ok=True, text="done")
    mail.failing = [NotSent("busy")]
    await dispatch(dispatcher)
    assert await statuses(ports, desk, question.id) == {"ann": "updated"}
    clock.advance(HOUR)
    await dispatch(dispatcher)
    assert len(mail.updated) == 3
    clock.advance(HOUR)
    await dispatch(dispatcher)
    assert len(mail.updated) == 3


async def test_a_group_is_its_people_or_the_room_they_share(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, chat: Post
) -> None:
    for person in ("ann", "bob", "cid"):
        await address(ports, person)
        await address(ports, person, "chat")
    await address(ports, "group:ops", "chat", "#ops")
    await desk.post("Go?", recipients=["group:ops"])
    await dispatch(dispatcher)
    assert sorted(each.recipient for each in mail.sent) == ["ann", "bob"]
    assert [(each.to, each.person) for each in chat.sent] == [("#ops", None)]


async def test_on_call_one_after_the_other_is_told(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "bob"):
        await address(ports, person)
    await ports.outbox.put_routing("w", {"on_call": {"ops": ["bob", "ann"]}})
    minute = timedelta(minutes=1)
    timeline = Timeline(remind=(minute, 2 * minute), expire=10 * minute)
    await desk.post("Go?", recipients=["group:ops"], timeline=timeline)
    for _ in range(3):
        await dispatch(dispatcher)
        clock.advance(timedelta(minutes=1))
        await desk.run_due()
    assert [each.recipient for each in mail.sent] == ["bob", "ann", "bob"]


async def test_one_who_cannot_be_reached_is_tried_again_with_the_same_message(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    question = await desk.post("Go?", recipients=["ann"])
    mail.failing = [NotSent("busy", after=timedelta(minutes=2)), RuntimeError("planted"), TimeoutError()]
    for _ in range(4):
        await dispatch(dispatcher)
        clock.advance(timedelta(seconds=100))
        await dispatch(dispatcher)
        clock.advance(timedelta(seconds=100))
    assert len(mail.sent) == 4
    assert len({(each.id, each.at, each.notices[0].link) for each in mail.sent}) == 1
    assert await statuses(ports, desk, question.id) == {"ann": "sent"}


async def test_that_nobody_could_be_reached_is_seen(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    first = await desk.post("Go?", recipients=["ann"])
    mail.failing = [NotSent("no such mailbox", again=False)]
    await dispatch(dispatcher)
    assert await statuses(ports, desk, first.id) == {"ann": "failed"}
    unknown = await desk.post("Go?", recipients=["nobody"])
    await dispatch(dispatcher)
    for each in (first, unknown):
        assert (await desk.get(each.id)).unreached_at is not None
        assert [event.kind for event in await desk.history(each.id)] == [EventKind.ASKED, EventKind.UNREACHED]


async def test_after_long_silence_it_is_unknown_whether_it_arrived(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    mail.patience = timedelta(minutes=1)
    mail.hanging = {"ann@example.org"}
    question = await desk.post("Go?", recipients=["ann"])
    for _ in range(20):
        await dispatch(dispatcher)
        clock.advance(timedelta(minutes=1))
    assert await statuses(ports, desk, question.id) == {"ann": "unknown"}
    assert 3 <= len(mail.sent) <= 10


async def test_a_mail_that_was_never_handed_over_is_not_sent_when_its_question_ends(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    question = await desk.post("Go?", recipients=["ann"])
    mail.failing = [NotSent("no connection") for _ in range(3)]
    await dispatch(dispatcher)
    clock.advance(MINUTE)
    await dispatch(dispatcher)
    assert await statuses(ports, desk, question.id) == {"ann": "queued"}
    await desk.answer(question.id, "no", by="ann")
    clock.advance(MINUTE)
    await dispatch(dispatcher)
    [found] = await ports.outbox.deliveries(question.ref)
    assert (found.status, found.problem, found.due_at) == ("unsent", "no connection", None)


async def test_a_hanging_receiver_holds_up_only_itself(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann", to="ann@dead.example")
    await address(ports, "bob", to="bob@live.example")
    mail.hanging = {"ann@dead.example"}
    for _ in range(3 * MAX_PER_KEY):
        await desk.post("Go?", recipients=["ann"])
    for _ in range(5):
        await desk.post("Go?", recipients=["bob"])
    await dispatcher.work()
    async with asyncio.timeout(WITHIN):
        while sum(each.recipient == "bob" for each in mail.sent) < 5:
            await asyncio.sleep(0)
    assert sum(each.recipient == "ann" for each in mail.sent) <= MAX_PER_KEY
    await dispatcher.finish()


async def test_what_comes_too_often_waits_and_goes_out_as_one(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    await ports.outbox.put_routing("w", {"anybody": {"per_hour": 2}})
    for _ in range(2):
        await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    waiting = [await desk.post(f"Go {n}?", recipients=["ann"]) for n in range(3)]
    urgent = await desk.post("Now?", form=Approval.of("drop", {"t": 1}, risk="high"), recipients=["ann"])
    await desk.answer(waiting[0].id, "no", by="ann")
    await dispatch(dispatcher)
    assert [each.notices[0].question.id for each in mail.sent[2:]] == [urgent.id]
    clock.advance(HOUR)
    await dispatch(dispatcher)
    [bundle] = mail.sent[3:]
    assert {each.question.id for each in bundle.notices} == {each.id for each in waiting[1:]}
    assert await statuses(ports, desk, waiting[2].id) == {"ann": "sent"}


async def test_what_goes_out_as_one_is_tried_again_as_the_same_one(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    await ports.outbox.put_routing("w", {"anybody": {"per_hour": 1}})
    for _ in range(6):
        await desk.post("Go?", recipients=["ann"])
        await dispatch(dispatcher)
    clock.advance(HOUR)
    mail.failing = [NotSent("busy"), RuntimeError("planted"), TimeoutError()]
    for _ in range(60):
        await dispatch(dispatcher)
        clock.advance(timedelta(seconds=1))
    bundles = mail.sent[1:]
    assert len(bundles) == 4
    assert {len(each.notices) for each in bundles} == {5}
    assert len({each.id for each in bundles}) == 1


async def test_what_waits_for_one_address_does_not_go_to_another_of_the_same_person(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for number in ("1", "2"):
        place = Address(workspace="w", recipient="ann", channel="mail", id=number, to=f"ann@{number}.example")
        await ports.outbox.put_address(place)
    await ports.outbox.put_routing("w", {"anybody": {"per_hour": 1}})
    for _ in range(3):
        await desk.post("Go?", recipients=["ann"])
        await dispatch(dispatcher)
    clock.advance(HOUR)
    await dispatch(dispatcher)
    told = [(each.to, len(each.notices)) for each in mail.sent]
    assert sorted(told) == [
        ("ann@1.example", 1),
        ("ann@1.example", 2),
        ("ann@2.example", 1),
        ("ann@2.example", 2),
    ]


async def test_outside_their_hours_people_are_left_in_peace(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    at = clock.now()
    hours = {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "timezone": "UTC"}
    hours |= {"opens": f"{(at.hour + 2) % 24:02}:00", "closes": f"{(at.hour + 4) % 24:02}:00"}
    await ports.outbox.put_routing("w", {"people": {"ann": {"hours": hours}}})
    await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert mail.sent == []
    clock.advance(2 * HOUR)
    await dispatch(dispatcher)
    assert len(mail.sent) == 1


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ({"channels": ["chat"]}, ["chat"]),
        ({"channels": []}, []),
        ({"asker": "bot", "channels": ["mail"]}, ["mail"]),
        ({"asker": "other", "channels": ["mail"]}, ["chat", "mail"]),
        ({"risk": "high", "channels": ["mail"]}, ["chat", "mail"]),
        ({"recipient": "ann", "channels": ["mail"]}, ["mail"]),
    ],
)
async def test_rules_choose_the_channels(
    *,
    ports: Backend,
    desk: LocalDesk,
    dispatcher: Dispatcher,
    mail: Post,
    chat: Post,
    rule: dict[str, Any],
    told: list[str],
) -> None:
    await address(ports, "ann")
    await address(ports, "ann", "chat")
    await ports.outbox.put_routing("w", {"rules": [rule]})
    await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert sorted(each.channel for each in (*mail.sent, *chat.sent)) == told


async def test_an_answer_that_overtakes_its_message_stops_it(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    question = await desk.post("Go?", recipients=["ann"])
    await desk.answer(question.id, "yes", by="ann")
    await dispatch(dispatcher)
    assert mail.sent == []
    assert await statuses(ports, desk, question.id) == {}


async def test_it_works_by_itself_as_soon_as_something_happens(
    ports: Backend, engine: Engine, desk: LocalDesk, mail: Post
) -> None:
    await address(ports, "ann")
    async with run_dispatcher(engine, ports.outbox, ports.directory, [mail], link_to=link_to):
        question = await desk.post("Go?", recipients=["ann"])
        async with asyncio.timeout(WITHIN):
            while not mail.sent:
                await asyncio.sleep(0.001)
            await desk.answer(question.id, "yes", by="ann")
            while not mail.updated:
                await asyncio.sleep(0.001)


async def test_many_hints_make_few_looks(ports: Backend, mail: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = ports.outbox.workspaces_with_due

    async def counted(*, limit: int) -> Sequence[str]:
        nonlocal looks
        looks += 1
        return await look(limit=limit)

    monkeypatch.setattr(ports.outbox, "workspaces_with_due", counted)
    engine = Engine(ports.store, ports.bus, poll_interval=100)
    async with run_dispatcher(engine, ports.outbox, ports.directory, [mail], link_to=link_to):
        for _ in range(60):
            engine.notify_feed("w")
            await asyncio.sleep(0.01)
    await engine.close()
    assert 2 <= looks <= 4  # at the start, at the first hint, and at most every half second


async def test_a_message_that_perhaps_arrived_is_told_how_it_ended(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    mail.hanging = {"ann@example.org"}
    question = await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert await statuses(ports, desk, question.id) == {"ann": "unknown"}
    await desk.answer(question.id, "yes", by="ann")
    mail.failing = [NotSent("busy")]
    for _ in range(3):
        clock.advance(timedelta(minutes=5))
        await dispatch(dispatcher)
    assert [receipt for _, receipt in mail.updated] == [None, None]
    assert await statuses(ports, desk, question.id) == {"ann": "updated"}


async def test_a_burst_does_not_go_beyond_the_budget(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    await ports.outbox.put_routing("w", {"anybody": {"per_hour": 2}})
    for _ in range(50):
        await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert len(mail.sent) == 2


@pytest.mark.parametrize("claims", ["nothing", "high risk", "escalations"])
async def test_an_agent_that_floods_has_its_number_and_the_others_reach_people(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock, claims: str
) -> None:
    """Whatever it says of what it asks: what is risky and what escalates is for the agent to say."""
    for person in ("ann", "bob"):
        await address(ports, person)
    await ports.outbox.put_routing("w", {"agents": {"flooder": 5}})
    flooder, others = desk.scoped(asker="flooder"), [desk.scoped(asker=f"calm {n}") for n in range(3)]
    claimed: dict[str, dict[str, Any]] = {
        "nothing": {},
        "high risk": {"form": Approval.of("drop", risk="high")},
        "escalations": {"timeline": Timeline(escalate=(Escalation(after=MINUTE, to=("bob",)),))},
    }
    for _ in range(100):
        await flooder.post("Now!", recipients=["ann"], **claimed[claims])
    clock.advance(2 * MINUTE)
    await desk.run_due()
    asked = [await each.post("When you like?", recipients=["ann"]) for each in others]
    while await dispatcher_worked(dispatcher, mail):
        pass
    told = [notice.question for each in mail.sent for notice in each.notices]
    # The last of them may have several recipients.
    assert len([each for each in told if each.asker == "flooder"]) in (5, 6)
    assert {each.id for each in told if each.asker != "flooder"} == {each.id for each in asked}
    clock.advance(HOUR)
    before = len(mail.sent)
    while await dispatcher_worked(dispatcher, mail):
        pass
    held = mail.sent[before:]
    assert sum(len(each.notices) for each in held) >= 94
    assert len(held) <= 10, "what had to wait goes out together"


async def dispatcher_worked(dispatcher: Dispatcher, mail: Post) -> bool:
    """Dispatch what there is, and say whether somebody was told something."""
    before = len(mail.sent)
    await dispatch(dispatcher)
    return len(mail.sent) > before


async def test_what_a_rule_leaves_to_the_inbox_is_not_unreached(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    await address(ports, "ann")
    await ports.outbox.put_routing("w", {"rules": [{"channels": []}]})
    question = await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert mail.sent == []
    assert (await desk.get(question.id)).unreached_at is None


@pytest.mark.parametrize("ends", ["address", "entitlement"])
async def test_who_is_not_to_know_any_more_is_not_told(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock, ends: str
) -> None:
    await address(ports, "ann")
    await ports.outbox.put_routing("w", {"anybody": {"per_hour": 1}})
    await desk.post("Go?", recipients=["group:ops"])
    await dispatch(dispatcher)
    question = await desk.post("Go?", recipients=["group:ops"])
    await dispatch(dispatcher)
    if ends == "address":
        await ports.outbox.remove_address("w", "ann", "mail", "1")
    else:
        await ports.directory.put_group("w", "ops", ["bob"])
    clock.advance(HOUR)
    await dispatch(dispatcher)
    assert len(mail.sent) == 1
    assert await statuses(ports, desk, question.id) == {"ann": "failed"}


async def test_whoever_asks_is_not_told_and_takes_no_place_from_others_at_the_same_address(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post
) -> None:
    for person in ("ann", "bob"):
        await address(ports, person, to="ops@example.org")
    question = await desk.scoped(asker="ann").post("Go?", recipients=["ann", "bob"])
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["bob"]
    assert await statuses(ports, desk, question.id) == {"bob": "sent"}


async def test_the_people_of_a_stage_are_told_when_it_opens(
    ports: Backend, engine: Engine, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "cid"):
        await address(ports, person)
    steps = (Step(MINUTE, "escalate", ("cid",)), Step(2 * MINUTE, "remind"))
    draft = Draft(
        id="staged",
        workspace="w",
        asker="bot",
        prompt="Ship it?",
        form=Confirm(),
        recipients=("ann", "cid"),
        quorum=2,
        needs=(Need(("ann",)), Need(("cid",), 1, 1)),
        steps=steps,
    )
    await engine.store.insert([draft])
    clock.advance(MINUTE)
    await desk.run_due()
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann"], "an escalation does not open a stage"
    await desk.answer("staged", "yes", by="ann")
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann", "cid"]
    clock.advance(MINUTE)
    await desk.run_due()
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann", "cid", "cid"]


async def absent(ports: Backend, clock: ManualClock, person: str, deputy: str | None) -> None:
    away = Away(starts=clock.now(), until=clock.now() + HOUR, deputy=deputy)
    assert await ports.directory.set_away("w", person, away)


async def test_the_deputy_is_told_instead_of_who_is_away_reminders_included(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "bob", "cid"):
        await address(ports, person)
    await absent(ports, clock, "cid", "ann")
    timeline = Timeline(remind=(10 * MINUTE, 2 * HOUR), expire=3 * HOUR)
    question = await desk.post("Go?", recipients=["cid", "group:ops"], timeline=timeline)
    await dispatch(dispatcher)
    clock.advance(10 * MINUTE)
    await desk.run_due()
    await dispatch(dispatcher)
    assert sorted(each.recipient for each in mail.sent) == ["ann", "ann", "bob", "bob"]
    clock.advance(2 * HOUR)
    await desk.run_due()
    await dispatch(dispatcher)
    assert sorted(each.recipient for each in mail.sent[4:]) == ["ann", "bob", "cid"]
    assert (await desk.list_pending(recipient="cid")).items[0].id == question.id


async def test_who_has_no_deputy_is_told_although_they_are_away(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    await absent(ports, clock, "ann", None)
    await desk.post("Go?", recipients=["ann"])
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann"]


async def test_a_deputy_who_may_not_answer_is_not_told(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "cid"):
        await address(ports, person)
    await absent(ports, clock, "ann", "cid")
    await desk.post("Go?", recipients=["ann"])  # nobody has brought cid in
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann"]


async def test_a_reminder_says_who_was_on_it_when_it_was_due(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    timeline = Timeline(remind=[5 * MINUTE, 30 * MINUTE])
    question = await desk.post("Go?", recipients=["ann", "bob"], timeline=timeline)
    await dispatch(dispatcher)
    await desk.take(question.id, by="bob")
    for minutes in (6, 30):
        clock.advance(minutes * MINUTE)
        await desk.run_due()
        await dispatch(dispatcher)
    told = [(each.notices[0].reason, each.notices[0].question.taken_by) for each in mail.sent]
    assert told == [("asked", None), ("reminded", "bob"), ("reminded", None)]


async def test_a_deputy_who_cannot_be_reached_replaces_nobody(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    await address(ports, "ann")
    await absent(ports, clock, "ann", "bob")
    await desk.post("Go?", recipients=["group:ops"])
    await dispatch(dispatcher)
    assert [each.recipient for each in mail.sent] == ["ann"]


async def test_a_reminder_waits_for_the_hours_of_its_group_unless_the_risk_is_high(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "bob", "cid"):
        await address(ports, person)
    opens = clock.now() + 5 * HOUR
    hours = f"Mon-Sun {opens:%H}:00-24:00"
    await ports.directory.put_hours("w", "ops", WorkingHours(time_zone="UTC", hours=hours))
    remind = Timeline(remind=10 * MINUTE)
    await desk.post("Go?", recipients=["group:ops"], timeline=remind)
    await desk.post("Go?", recipients=["cid"], timeline=remind)
    risky = Approval.of("pay", {"amount": 1}, risk="high")
    await desk.post("Pay?", form=risky, recipients=["group:ops"], timeline=remind)
    await dispatch(dispatcher)
    assert len(mail.sent) == 5, "what is asked does not wait"
    mail.sent.clear()
    clock.advance(10 * MINUTE)
    await desk.run_due()
    await dispatch(dispatcher)
    assert sorted(each.recipient for each in mail.sent) == ["ann", "bob", "cid"]
    clock.advance(opens - clock.now() - MINUTE)
    await dispatch(dispatcher)
    assert len(mail.sent) == 3
    clock.advance(MINUTE)
    await dispatch(dispatcher)
    assert sorted(each.recipient for each in mail.sent[3:]) == ["ann", "bob"]


async def test_only_those_on_duty_are_told_and_everybody_if_nobody_is_or_nobody_knows(
    ports: Backend, desk: LocalDesk, dispatcher: Dispatcher, mail: Post, clock: ManualClock
) -> None:
    for person in ("ann", "bob", "cid"):
        await address(ports, person)
    await ports.directory.put_rota("w", "ops", "file", text="")
    shifts = [Shift(clock.now(), clock.now() + HOUR, person) for person in ("bob", "cid")]

    async def told(*, problem: str | None = None, on_duty: list[Shift] | None = None) -> list[str]:
        mail.sent.clear()
        kept: dict[str, Any] = {"text": None, "shifts": on_duty, "problem": problem}
        await ports.directory.keep_rota("w", "ops", "file", **kept)
        await desk.post("Go?", recipients=["group:ops"])
        await dispatch(dispatcher)
        return sorted(each.recipient for each in mail.sent)

    assert await told(on_duty=shifts) == ["bob"], "cid is not in the group"
    assert await told(problem="it is not an iCalendar file") == ["ann", "bob"]
    assert await told() == ["bob"]
    clock.advance(HOUR)
    assert await told() == ["ann", "bob"]
    assert await told(on_duty=[Shift(clock.now(), clock.now() + HOUR, "cid")]) == ["ann", "bob"]
