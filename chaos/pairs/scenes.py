"""What two workers can do at the same time: scenes, each with its possible actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from handraise import Approval, InvalidAnswer, InvalidQuestion, Question, StoreUnavailable, Timeline
from handraise.desks import LocalDesk
from handraise.model.deliveries import Address, Delivery, DeliveryStatus, Try
from handraise.model.provenance import Provenance
from handraise.model.timelines import Escalation
from handraise.ports import Outbox, RoutedEntry, Store
from handraise.questions import QuestionOptions, Ref
from handraise.testing import ManualClock

NOON = datetime(2100, 1, 1, 12, 0, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ASKED = "q-1"
"""The id of the question that every scene has; others that it begins with are q-2 and q-3."""


@dataclass
class Place:
    """Where one of them works: the product on their own connection, with their name and their clock."""

    person: str
    desk: LocalDesk
    store: Store
    outbox: Outbox
    clock: ManualClock

    @property
    def workspace(self) -> str:
        """The workspace of this run."""
        return self.desk.workspace


@dataclass(frozen=True)
class Deed:
    """Something that can be done, `later` than noon.

    It is one transition, perhaps with reads around it. One that `passes` over what is locked may do nothing;
    it is done again at the end of each run.
    """

    do: Callable[[Place], Awaitable[Any]] = field(repr=False)
    later: timedelta = timedelta()
    passes: bool = False
    removes: bool = False
    """Whether it removes what is settled."""


@dataclass(frozen=True)
class Scene:
    """How it begins, what can be done, and whether old questions are removed, which needs an empty database."""

    prepare: Callable[[Place], Awaitable[None]]
    deeds: Mapping[str, Deed]
    tidies: bool = False


_ORDER: QuestionOptions = {
    "choices": ["a", "b"],
    "key": "order",
    "recipients": ["ana", "ben"],
    "conversation": "talk",
}
_WIDE = Approval.of("pay", {"to": "zoe"}, scopes=("once", "session"))
_END = Timeline(expire=3 * HOUR)
_ESCALATION = (Escalation(after=2 * HOUR, to=("cleo",)),)
_DEFAULT = Timeline(expire=3 * HOUR, default="b")
_PAY: QuestionOptions = {
    "form": _WIDE,
    "key": "order",
    "recipients": ["ana", "ben"],
    "conversation": "talk",
    "timeline": _END,
}


def _with(options: QuestionOptions, others: QuestionOptions) -> QuestionOptions:
    both = options.copy()
    both.update(others)
    return both


def _asked(**options: Unpack[QuestionOptions]) -> Callable[[Place], Awaitable[None]]:
    async def prepare(place: Place) -> None:
        await place.desk.post("Which?", **_with(_ORDER, options))

    return prepare


def _again(**options: Unpack[QuestionOptions]) -> Callable[[Place], Awaitable[Any]]:
    async def ask(place: Place) -> Question:
        return await place.desk.post("Which?", **_with(_ORDER, options))

    return ask


async def _answer(place: Place) -> Question:
    return await place.desk.answer(ASKED, "a" if place.person == "ana" else "b", by=place.person)


async def _agree(place: Place) -> Question:
    return await place.desk.answer(ASKED, "a", by=place.person)


async def _misfit(place: Place) -> Question | str:
    try:
        return await place.desk.answer(ASKED, "neither", by=place.person)
    except InvalidAnswer as misfit:
        return f"does not fit: {misfit.outcome and misfit.outcome.status.value}"


async def _decline(place: Place) -> Question:
    return await place.desk.decline(ASKED, by=place.person)


async def _send_back(place: Place) -> Question:
    return await place.desk.send_back(ASKED, by=place.person, reason="Name the customer.")


async def _withdraw(place: Place) -> Question:
    return await place.desk.withdraw(ASKED)


async def _sweep(place: Place) -> int:
    return await place.desk.run_due()


async def _recover(place: Place) -> int:
    return (await place.desk.recover(timedelta(minutes=1))).expired


async def _read(place: Place) -> Question:
    return await place.desk.get(ASKED)


async def _wait(place: Place) -> Any:
    return (await place.store.outcomes([Ref(place.workspace, ASKED)])).get(
        Ref(place.workspace, ASKED), "pending"
    )


async def _escalated(place: Place) -> Question:
    # A desk waits only briefly for somebody who has locked a question that is due to be escalated. Then it goes by what is
    # stored, and refuses those who are not asked yet: they may try again.
    return await place.desk.answer(ASKED, "b", by="cleo")


_ENDINGS = {
    "answer": Deed(_answer),
    "decline": Deed(_decline),
    "withdraw": Deed(_withdraw),
    "expire": Deed(_sweep, later=3 * HOUR, passes=True),
    "recover": Deed(_recover, later=HOUR / 2, passes=True),
}
_LOOKS = {"read": Deed(_read), "wait": Deed(_wait)}


def _voted(timeline: Timeline) -> Callable[[Place], Awaitable[None]]:
    async def prepare(place: Place) -> None:
        people = ["ana", "ben", "dan"]
        await _asked(quorum=2, veto=True, max_attempts=2, recipients=people, timeline=timeline)(place)
        await place.desk.answer(ASKED, "a", by="dan")

    return prepare


async def _change_vote(place: Place) -> Question:
    return await place.desk.answer(ASKED, "b", by="dan")


async def _approve(place: Place) -> Question:
    return await place.desk.answer(ASKED, "approve", by=place.person)


async def _deny(place: Place) -> Question:
    return await place.desk.answer(ASKED, "deny", by=place.person)


async def _remember(place: Place) -> Question:
    return await place.desk.answer(ASKED, {"decision": "approve", "scope": "session"}, by=place.person)


async def _consume(place: Place) -> str:
    return (await place.desk.consume_approval(ASKED)).tool


async def _granted(place: Place) -> None:
    """An approval is pending, and one before it has left a grant."""
    await place.desk.post("Pay?", **_PAY)
    earlier = await place.desk.post("Pay?", **_with(_PAY, {"key": "earlier"}))
    await place.desk.answer(earlier.id, {"decision": "approve", "scope": "session"}, by="ana")


async def _use_grant(place: Place) -> Question | None:
    return await place.desk.apply_grant(ASKED)


async def _revoke(place: Place) -> bool:
    grants = await place.store.grants(place.workspace, after=None, limit=9)
    prepared = next(each.id for each in grants if each.id.startswith("q"))
    return (await place.desk.revoke_grant(prepared, by=place.person)).revoked_at is not None


async def _approved(place: Place) -> None:
    await place.desk.post("Which?", **_PAY)
    await place.desk.answer(ASKED, {"decision": "approve", "scope": "session"}, by="ana")


async def _approved_for_an_hour(place: Place) -> None:
    await place.desk.post("Pay?", **_with(_PAY, {"form": Approval.of("pay", valid_for=HOUR)}))
    await place.desk.answer(ASKED, "approve", by="ana")


async def _take_back(place: Place) -> str:
    # Whether this call or an earlier one took it back, it is told the same: so a reply does not say who was first.
    return f"taken back: {(await place.desk.take_back(ASKED, by='ana')).taken_back_at is not None}"


async def _take_back_as_another(place: Place) -> Question:
    return await place.desk.take_back(ASKED, by="ben")


async def _used(place: Place) -> None:
    await _approved(place)
    await place.desk.consume_approval(ASKED)


async def _report_done(place: Place) -> Question:
    return await place.desk.report(ASKED, ok=True, text="paid")


async def _report_failed(place: Place) -> Question:
    return await place.desk.report(ASKED, ok=False, text="no money")


async def _talked_about(place: Place) -> None:
    """An approval is pending, one of two has voted for it, and the other one has asked back."""
    await place.desk.post(
        "Pay?", **_with(_PAY, {"form": Approval.of("pay"), "quorum": 2, "replies": "program"})
    )
    await place.desk.answer(ASKED, "approve", by="ana")
    await place.desk.ask_back(ASKED, "To whom?", by="ben")


async def _approve_unread(place: Place) -> Question:
    return await place.desk.answer(ASKED, "approve", by="ben", provenance=Provenance(seen=1))


async def _ask_back(place: Place) -> Question:
    return await place.desk.ask_back(ASKED, "And why?", by="ana")


async def _note(place: Place) -> Question:
    return await place.desk.note(ASKED, "I know them", by="ana")


async def _reply(place: Place) -> Question:
    return await place.desk.reply(ASKED, "To Zoe.", to=1)


async def _shared_out(place: Place) -> None:
    """Ana works on a question, Ben does not want it, and it will be escalated to Cleo."""
    await _asked(timeline=Timeline(escalate=_ESCALATION, expire=3 * HOUR))(place)
    await place.desk.take(ASKED, by="ana")
    await place.desk.set_aside(ASKED, by="ben")


async def _take_question(place: Place) -> Question:
    return await place.desk.take(ASKED, by=place.person)


async def _release(place: Place) -> Question:
    return await place.desk.release(ASKED, by="ana")


async def _bring_in(place: Place) -> Question:
    return await place.desk.bring_in(ASKED, ["cleo"], by=place.person)


async def _hand_over(place: Place) -> Question:
    return await place.desk.hand_over(ASKED, ["dan", "cleo"], by=place.person)


async def _set_aside(place: Place) -> Question:
    return await place.desk.set_aside(ASKED, by=place.person, until=NOON + HOUR)


async def _put_back(place: Place) -> Question:
    return await place.desk.put_back(ASKED, by="ben")


async def _answer_as_brought_in(place: Place) -> Question:
    return await place.desk.answer(ASKED, "a", by="cleo")


def _replace(key: str | None = None) -> Callable[[Place], Awaitable[Any]]:
    async def replace_it(place: Place) -> str:
        try:
            asked = await place.desk.post(
                "Which one?", **_with(_ORDER, {"key": key or f"new-{place.person}", "replaces": ASKED})
            )
        except InvalidQuestion as refused:
            return f"refused: {refused.problems[0].path}"
        return f"instead of {ASKED}" if asked.replaces == ASKED else f"not instead of {ASKED}"

    return replace_it


async def _sent_back(place: Place) -> None:
    await _asked(timeline=_END)(place)
    await place.desk.send_back(ASKED, by="ana", reason="Name the customer.")


_TOPIC: QuestionOptions = {"choices": ["a", "b"], "topic": "vat-rate", "recipients": ["ana", "ben"]}
FOLLOWER = "q-2"


def _followed(
    first: Timeline | None = None, second: Timeline | None = None
) -> Callable[[Place], Awaitable[None]]:
    """One question of a topic is asked and two follow it."""

    async def prepare(place: Place) -> None:
        for timeline in (first, second, None):
            options = _with(_TOPIC, {"replies": "program"})
            if timeline is not None:
                options["timeline"] = timeline
            await place.desk.post("Which rate?", **options)

    return prepare


async def _follow(place: Place) -> str:
    asked = await place.desk.post("Which rate?", **_TOPIC)
    return f"follows {asked.follows}"


async def _first_of_topic(place: Place) -> None:
    await place.desk.post("Which rate?", **_with(_TOPIC, {"timeline": _END, "replies": "program"}))


async def _replace_first(place: Place) -> str:
    try:
        await place.desk.post("Which rate?", **_with(_TOPIC, {"replaces": ASKED}))
    except InvalidQuestion:
        return "another one has replaced it"
    return f"instead of {ASKED}"


async def _answer_follower(place: Place) -> Question:
    return await place.desk.answer(FOLLOWER, "b", by=place.person)


async def _withdraw_follower(place: Place) -> Question:
    return await place.desk.withdraw(FOLLOWER)


async def _bring_into_follower(place: Place) -> Question:
    return await place.desk.bring_in(FOLLOWER, ["cleo"], by=place.person)


async def _read_follower(place: Place) -> Question:
    return await place.desk.get(FOLLOWER)


async def _ask_first_back(place: Place) -> Question:
    return await place.desk.ask_back(ASKED, "Of which year?", by=place.person)


async def _ask_to_pay_again(place: Place) -> Question:
    try:
        return await place.desk.post("Which?", **_PAY)
    except StoreUnavailable:  # it was removed at that moment: the asker asks again, as the error says
        return await place.desk.post("Which?", **_PAY)


async def _remove(place: Place) -> None:
    await place.store.tidy(keep=2 * DAY, limit=100)


def _delivery(place: Place, reason: str) -> Delivery:
    return Delivery(
        workspace=place.workspace,
        id=f"d-{reason}",
        question_id=ASKED,
        recipient="ana",
        channel="mail",
        to="ana@localhost",
        reason="asked",
        rate_limit_key="mail",
        created_at=place.clock.now(),
        due_at=place.clock.now(),
    )


async def _addressed(place: Place) -> None:
    await place.outbox.put_address(
        Address(workspace=place.workspace, recipient="ana", channel="mail", id="1", to="ana@localhost")
    )
    await _asked(timeline=_END)(place)


async def _route(place: Place) -> int:
    entries = await place.outbox.entries(place.workspace, limit=100)
    routed = [
        RoutedEntry(entry=entry, deliveries=[_delivery(place, entry.kind.value)])
        if entry.kind.value in {"asked", "reminded", "escalated"}
        else RoutedEntry(entry=entry, settled=True)
        for entry in entries
    ]
    return await place.outbox.route(place.workspace, routed) if routed else 0


async def _unreached(place: Place) -> bool:
    return await place.outbox.mark_unreached(Ref(place.workspace, ASKED))


async def _taken(place: Place) -> None:
    await _addressed(place)
    await _route(place)
    await _take(place)


async def _take(place: Place) -> int:
    taken = await place.outbox.take(
        place.workspace, channels=["mail"], free_slots={}, per_key=10, limit=10, lease=HOUR / 60
    )
    return len(taken)


def _recorded(status: DeliveryStatus, again_after: timedelta | None) -> Callable[[Place], Awaitable[None]]:
    async def record(place: Place) -> None:
        taken = replace(_delivery(place, "asked"), turn=1, tries=1)  # as the dispatcher that tried it had it
        await place.outbox.record([Try(delivery=taken, status=status, again_after=again_after)])

    return record


_TOLD = {"answer": Deed(_answer), "withdraw": Deed(_withdraw), "expire": _ENDINGS["expire"]}

SCENES: Mapping[str, Scene] = {
    "one must answer": Scene(
        _asked(max_attempts=2, timeline=_END),
        {
            **_ENDINGS,
            **_LOOKS,
            "send back": Deed(_send_back),
            "misfit": Deed(_misfit),
            "ask again": Deed(_again(max_attempts=2, timeline=_END)),
            "ask something else": Deed(_again(choices=["c"], timeline=_END)),
        },
    ),
    "a reminder is due": Scene(
        _asked(timeline=Timeline(remind=(HOUR,))),
        {
            "remind": Deed(_sweep, later=HOUR, passes=True),
            "answer": Deed(_answer),
            "answer by others": Deed(_escalated, later=HOUR, passes=True),
            "withdraw": Deed(_withdraw),
            "misfit": Deed(_misfit),
            "recover": _ENDINGS["recover"],
        },
    ),
    "others are due to be asked": Scene(
        _asked(timeline=Timeline(escalate=_ESCALATION)),
        {
            "escalate": Deed(_sweep, later=2 * HOUR, passes=True),
            "answer": Deed(_answer),
            "answer by others": Deed(_escalated, later=2 * HOUR, passes=True),
            "withdraw": Deed(_withdraw),
            "misfit": Deed(_misfit),
            "recover": _ENDINGS["recover"],
        },
    ),
    "the last misfit": Scene(
        _asked(max_attempts=1, timeline=_DEFAULT),
        {
            "misfit": Deed(_misfit),
            "answer": Deed(_answer),
            "decline": Deed(_decline),
            "withdraw": Deed(_withdraw),
            "take the default": _ENDINGS["expire"],
            "ask again": Deed(_again(timeline=_DEFAULT)),
        },
    ),
    "two must agree": Scene(
        _voted(_END),
        {
            "vote": Deed(_agree),
            "vote to send it back": Deed(_send_back),
            "vote for another": Deed(_answer),
            "change a vote": Deed(_change_vote),
            "veto": Deed(_decline),
            "misfit": Deed(_misfit),
            "withdraw": Deed(_withdraw),
            "expire": _ENDINGS["expire"],
            "read": Deed(_read),
        },
    ),
    "two must agree, and others are asked": Scene(
        _voted(Timeline(escalate=_ESCALATION)),
        {
            "vote": Deed(_agree),
            "vote by others": Deed(_escalated, later=2 * HOUR),
            "veto": Deed(_decline),
            "escalate": Deed(_sweep, later=2 * HOUR, passes=True),
        },
    ),
    "nothing is asked yet": Scene(
        _asked(key="another"),
        {
            "ask": Deed(_again()),
            "ask something else": Deed(_again(choices=["c"])),
            "ask with a timeline": Deed(_again(timeline=_END)),
            "answer another": Deed(_answer),
        },
    ),
    "an approval with a grant at hand": Scene(
        _granted,
        {
            "approve": Deed(_approve),
            "approve and remember": Deed(_remember),
            "deny": Deed(_deny),
            "decline": Deed(_decline),
            "send back": Deed(_send_back),
            "withdraw": Deed(_withdraw),
            "expire": _ENDINGS["expire"],
            "use the grant": Deed(_use_grant),
            "revoke the grant": Deed(_revoke),
            "consume": Deed(_consume),
        },
    ),
    "approved": Scene(
        _approved,
        {
            "consume": Deed(_consume),
            "consume days later": Deed(_consume, later=3 * DAY),
            "take back": Deed(_take_back),
            "take back days later": Deed(_take_back, later=3 * DAY),
            "revoke the grant": Deed(_revoke),
            "report": Deed(_report_done),
            "deny too late": Deed(_deny),
            "withdraw too late": Deed(_withdraw),
            "remove": Deed(_remove, later=60 * DAY, passes=True, removes=True),
            "read": Deed(_read),
            "wait": Deed(_wait),
            "ask again": Deed(_ask_to_pay_again),
        },
        tidies=True,
    ),
    "approved for an hour": Scene(
        _approved_for_an_hour,
        {
            "consume": Deed(_consume),
            "consume too late": Deed(_consume, later=2 * HOUR),
            "take back": Deed(_take_back),
            "take back too late to consume": Deed(_take_back, later=2 * HOUR),
            "take back what another approved": Deed(_take_back_as_another),
            "report": Deed(_report_done),
            "read": Deed(_read),
        },
    ),
    "used": Scene(
        _used,
        {
            "take back too late": Deed(_take_back),
            "report that it worked": Deed(_report_done),
            "report that it failed": Deed(_report_failed),
            "report days later": Deed(_report_done, later=3 * DAY),
            "remove": Deed(_remove, later=60 * DAY, passes=True, removes=True),
        },
        tidies=True,
    ),
    "people talk about an approval": Scene(
        _talked_about,
        {
            "approve the question": Deed(_approve_unread),
            "deny": Deed(_deny),
            "vote to send it back": Deed(_send_back),
            "ask back": Deed(_ask_back),
            "note": Deed(_note),
            "reply": Deed(_reply),
            "take": Deed(_take_question),
            "bring in": Deed(_bring_in),
            "hand over": Deed(_hand_over),
            "withdraw": Deed(_withdraw),
            "expire": _ENDINGS["expire"],
        },
    ),
    "people share the work": Scene(
        _shared_out,
        {
            "take": Deed(_take_question),
            "take when the lease is over": Deed(_take_question, later=HOUR / 2),
            "release": Deed(_release),
            "bring in": Deed(_bring_in),
            "hand over": Deed(_hand_over),
            "set aside": Deed(_set_aside),
            "put back": Deed(_put_back),
            "note": Deed(_note),
            "answer": Deed(_answer),
            "answer by who was brought in": Deed(_answer_as_brought_in),
            "send back": Deed(_send_back),
            "withdraw": Deed(_withdraw),
            "escalate": Deed(_sweep, later=2 * HOUR, passes=True),
            "expire": _ENDINGS["expire"],
        },
    ),
    "to be replaced": Scene(
        _asked(timeline=_END),
        {
            **_ENDINGS,
            "replace": Deed(_replace()),
            "replace, both with one key": Deed(_replace("new")),
            "send back": Deed(_send_back),
            "note": Deed(_note),
            "take": Deed(_take_question),
            "ask again": Deed(_again(timeline=_END)),
            "read": Deed(_read),
        },
    ),
    "sent back": Scene(
        _sent_back,
        {
            "replace": Deed(_replace()),
            "replace, both with one key": Deed(_replace("new")),
            "answer too late": Deed(_answer),
            "withdraw too late": Deed(_withdraw),
            "ask again": Deed(_again(timeline=_END)),
            "read": Deed(_read),
        },
    ),
    "the first of a topic": Scene(
        _first_of_topic,
        {
            **_ENDINGS,
            "send back": Deed(_send_back),
            "follow": Deed(_follow),
            "replace": Deed(_replace_first),
            "ask back": Deed(_ask_first_back),
            "take": Deed(_take_question),
        },
    ),
    "a topic with followers": Scene(
        _followed(first=_END),
        {
            "answer": Deed(_answer),
            "decline": Deed(_decline),
            "withdraw": Deed(_withdraw),
            "expire": _ENDINGS["expire"],
            "send back": Deed(_send_back),
            "follow": Deed(_follow),
            "replace": Deed(_replace_first),
            "ask back": Deed(_ask_first_back),
            "bring in": Deed(_bring_in),
            "answer a follower": Deed(_answer_follower),
            "withdraw a follower": Deed(_withdraw_follower),
            "bring into a follower": Deed(_bring_into_follower),
            "read a follower": Deed(_read_follower),
        },
    ),
    # If both ended at one time, a sweep could pass over the second, and then it would be asked for a moment.
    "a follower is due to end": Scene(
        _followed(second=_END),
        {
            "expire the follower": _ENDINGS["expire"],
            "answer": Deed(_answer),
            "withdraw": Deed(_withdraw),
            "follow": Deed(_follow),
            "replace": Deed(_replace_first),
            "answer a follower": Deed(_answer_follower),
            "withdraw a follower": Deed(_withdraw_follower),
        },
    ),
    "telling people": Scene(
        _addressed,
        {
            **_TOLD,
            "route": Deed(_route, passes=True),
            "unreached": Deed(_unreached),
        },
    ),
    "a message is being sent": Scene(
        _taken,
        {
            **_TOLD,
            "route": Deed(_route, passes=True),
            "take it over": Deed(_take, later=HOUR / 2, passes=True),
            "it was sent": Deed(_recorded(DeliveryStatus.SENT, None)),
            "it failed": Deed(_recorded(DeliveryStatus.FAILED, None)),
            "it is to be tried again": Deed(_recorded(DeliveryStatus.QUEUED, HOUR / 60)),
        },
    ),
}
