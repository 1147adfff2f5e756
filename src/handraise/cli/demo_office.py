"""The office of `handraise demo`: people, a policy, a week of answered questions, and some that wait."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from handraise.desk.policy_admin import put_policy
from handraise.model.briefs import Brief
from handraise.model.forms import Approval
from handraise.model.identities import Role
from handraise.model.json_values import Json
from handraise.model.people import Responder
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from handraise.ports.desk import Desk
from handraise.server.context import ServerContext, open_context
from handraise.server.settings import ServerSettings

BILLING, SUPPORT, DATA = "billing-agent", "support-agent", "data-agent"
_COLLEAGUES = {"mara": "Mara Lindt", "tom": "Tom Berger"}
_FINANCE = "group:finance"
_POLICY: dict[str, Json] = {
    "rules": [
        {
            "name": "small refunds",
            "when": 'tool == "refund" && args.amount <= 40',
            "then": {"allow": {"check": 0.0}},
        },
        {
            "name": "large invoices",
            "when": 'tool == "pay_invoice" && args.amount > 1000',
            "then": {"require": {"people": [_FINANCE], "quorum": 2}},
        },
        {
            "name": "no customer is deleted",
            "when": 'tool == "delete_customer"',
            "then": {"deny": "Customers are archived, never deleted."},
        },
    ]
}
_REFUNDS = (18, 75, 31, 120, 24, 66, 39, 210, 12, 88, 35, 54, 27, 140)
"""The amounts of the past week, in euros."""
_DENIALS = {210: {"decision": "deny", "reason": "The goods were used."}}
_CHANNELS = ("web", "slack", "email")
_FAILURES = {88: "The bank refused it: the card was closed."}
_STATEMENT = """\
alter table orders
    add column shipped_at timestamptz;

update orders
set shipped_at = shipment.sent_at
from shipment
where shipment.order_id = orders.id
    and orders.status = 'shipped';
"""
_INVOICE = """\
Nordlicht GmbH, Hamburg
Invoice 2026-1107-B, replaces 2026-1107

Hosting, October       3,960.00
Support, 4 hours         350.00
                     ----------
Total                  4,310.00 EUR
"""


@dataclass
class OfficeClock:
    """A clock that shows a moment of the past, and is moved by hand."""

    at: datetime

    def now(self) -> datetime:
        """The moment that it shows."""
        return self.at

    def move(self, **span: float) -> None:
        """Move it on."""
        self.at += timedelta(**span)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The questions whose agents go on when they are answered."""

    invoice: Question
    refund: Question
    change: Question


async def fill_office(settings: ServerSettings, *, person: str) -> Waiting:
    """Store what happened in the past week, and what waits for this person now."""
    clock = OfficeClock(datetime.now(UTC) - timedelta(days=6, hours=2))
    async with open_context(settings, clock=clock) as ctx:
        await _add_people(ctx, person)
        await _add_past_questions(ctx, clock, person)
        clock.at = datetime.now(UTC) - timedelta(minutes=50)
        return await _add_pending_questions(ctx, clock, person)


async def _add_people(ctx: ServerContext, person: str) -> None:
    workspace, directory = ctx.settings.workspace, ctx.directory
    for each, name in _COLLEAGUES.items():
        await directory.put_person(workspace, each, name=name, email=None, role=Role.MEMBER, by="demo")
    if await directory.find_person(workspace, person) is None:
        await directory.put_person(workspace, person, name="You", email=None, role=Role.ADMIN, by="demo")
    await directory.put_group(workspace, "finance", [person, *_COLLEAGUES], by="demo")
    await put_policy(ctx.policies, workspace, _POLICY, by="demo", expected=None)


async def _add_past_questions(ctx: ServerContext, clock: OfficeClock, person: str) -> None:
    support, data = (ctx.desk.scoped(asker=each) for each in (SUPPORT, DATA))
    people = ("mara", "tom", person)
    for number, amount in enumerate(_REFUNDS):
        refund = await _refund(support, number, amount)
        if refund.outcome is None:
            clock.move(minutes=7 + 11 * (number % 4))
            by = Responder(people[number % 3], groups=frozenset({"finance"}))
            where = Provenance(channel=_CHANNELS[number % 3])
            decision = _DENIALS.get(amount, {"decision": "approve"})
            refund = await support.answer(refund.id, decision, by=by, provenance=where)
        if amount not in _DENIALS:
            await support.consume_approval(refund.id)
            clock.move(seconds=3)
            failure = _FAILURES.get(amount)
            text = failure or f"{amount}.00 € are on their way."
            await support.report(refund.id, ok=failure is None, text=text)
        clock.move(hours=9)
    rate = await _vat_rate(data)
    clock.move(minutes=4)
    await data.answer(rate.id, "7", by="mara")
    await data.keep_answer(rate.id, until=datetime.now(UTC) + timedelta(days=30), by="mara", spot_check=0.0)
    await _vat_rate(ctx.desk.scoped(asker=BILLING))


async def _refund(desk: Desk, number: int, amount: int) -> Question:
    return await desk.post(
        f"May I refund {amount}.00 €?",
        form=Approval.of(
            "refund",
            {"order": f"A-{4100 + number}", "amount": amount, "reason": "Arrived broken"},
            editable=["amount"],
            risk="low",
        ),
        recipients=[_FINANCE],
        conversation=f"ticket {710 + number}",
    )


async def _vat_rate(desk: Desk) -> Question:
    return await desk.post(
        "Which VAT rate applies to e-books in Germany?",
        choices=["7", "19"],
        recipients=["mara"],
        topic="vat-rate:DE:e-books",
    )


async def _add_pending_questions(ctx: ServerContext, clock: OfficeClock, person: str) -> Waiting:
    billing, support, data = (ctx.desk.scoped(asker=each) for each in (BILLING, SUPPORT, DATA))
    mara, tom = (Responder(each, groups=frozenset({"finance"})) for each in _COLLEAGUES)
    invoice = await _invoice(billing)
    clock.move(minutes=5)
    await billing.ask_back(invoice.id, "We have paid 2026-1107 in part. Is this the rest?", by=mara)
    clock.move(seconds=20)
    await billing.reply(
        invoice.id,
        "No, it replaces that one: support was missing. The part that was paid came back on Friday.",
    )
    clock.move(minutes=2)
    await billing.answer(invoice.id, {"decision": "approve"}, by=mara, provenance=Provenance(seen=2))
    change = await _change(data)
    clock.move(minutes=6)
    refund = await _refund(support, 15, 129)
    for receipt in ("taxi, 4 November", "hotel, 5 November", "lunch, 6 November"):
        clock.move(minutes=1)
        await billing.post(
            "Is this a receipt that we can book?",
            choices=["Yes", "No"],
            context={"file": receipt},
            recipients=[_FINANCE],
            conversation="November closing",
        )
    clock.move(minutes=8)
    reply = await support.post(
        "What should I tell the customer who wants a discount?",
        context={"customer": "Since 2019, 31 orders", "asks for": "15 % on the next order"},
        recipients=["tom"],
        conversation="ticket 731",
    )
    clock.move(minutes=3)
    await support.hand_over(reply.id, [person], by=tom, reason="I am in a meeting until four. You know them.")
    later = await data.post(
        "Shall I archive the orders of 2019?",
        choices=["Yes", "No", "Only those that are paid"],
        recipients=[person],
    )
    clock.move(minutes=2)
    await data.set_aside(later.id, by=person, until=datetime.now(UTC) + timedelta(days=1))
    return Waiting(invoice, refund, change)


async def _invoice(desk: Desk) -> Question:
    file = await desk.attach(_INVOICE.encode(), name="invoice-2026-1107-B.txt")
    return await desk.post(
        "May I pay this invoice?",
        form=Approval.of(
            "pay_invoice",
            {"to": "Nordlicht GmbH", "amount": 4310, "currency": "EUR", "number": "2026-1107-B"},
            risk="high",
            brief=Brief(
                why="It is due on Friday, and 2 % are taken off if it is paid by then.",
                checked=(
                    "The account is the one of the last eleven invoices.",
                    "The total is the sum of its lines.",
                ),
                reversible=False,
                affects="The account of the office",
            ),
        ),
        recipients=[_FINANCE],
        attachments=[file],
        conversation="November closing",
        replies="program",
    )


async def _change(desk: Desk) -> Question:
    return await desk.post(
        "May I run this on the copy of production?",
        form=Approval.of(
            "run_sql", {"database": "shop-copy", "statement": _STATEMENT}, editable=["statement"]
        ),
        context={"rows": 48_210, "on the last copy": "It took 11 s."},
        conversation="release 4.2",
        replies="program",
    )
