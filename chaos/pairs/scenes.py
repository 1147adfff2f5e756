"""What two workers can do at the same time: scenes, each with its possible actions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from handraise import Approval, InvalidAnswer, Question, StoreUnavailable, Timeline
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
"""The id of the question that every scene has; a second one is q-2."""


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
    """How it begins, what can be done, and whether settled questions are archived, which needs an empty database."""

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


async def _ask_to_pay_again(place: Place) -> Question:
    try:
        return await place.desk.post("Which?", **_PAY)
    except StoreUnavailable:  # it was removed at that moment: the asker asks again, as the error says
        return await place.desk.post("Which?", **_PAY)


async def _archive(place: Place) -> None:
    await place.store.tidy(rest=DAY, keep=None, limit=100)


async def _remove(place: Place) -> None:
    await place.store.tidy(rest=DAY, keep=2 * DAY, limit=100)


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
            "revoke the grant": Deed(_revoke),
            "report": Deed(_report_done),
            "deny too late": Deed(_deny),
            "withdraw too late": Deed(_withdraw),
            "archive": Deed(_archive, later=1.5 * DAY, passes=True),
            "archive and remove": Deed(_remove, later=60 * DAY, passes=True, removes=True),
            "read": Deed(_read),
            "wait": Deed(_wait),
            "ask again": Deed(_ask_to_pay_again),
        },
        tidies=True,
    ),
    "used": Scene(
        _used,
        {
            "report that it worked": Deed(_report_done),
            "report that it failed": Deed(_report_failed),
            "report days later": Deed(_report_done, later=3 * DAY),
            "archive": Deed(_archive, later=1.5 * DAY, passes=True),
            "archive and remove": Deed(_remove, later=60 * DAY, passes=True, removes=True),
        },
        tidies=True,
    ),
    "people talk about an approval": Scene(
        _talked_about,
        {
            "approve the question": Deed(_approve_unread),
            "deny": Deed(_deny),
            "ask back": Deed(_ask_back),
            "note": Deed(_note),
            "reply": Deed(_reply),
            "withdraw": Deed(_withdraw),
            "expire": _ENDINGS["expire"],
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
