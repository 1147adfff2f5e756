"""A morning in a company with a few agents, for pictures: what waits, what was escalated, what was answered."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from handraise import (
    Approval,
    Choice,
    Confirm,
    Escalation,
    Field,
    Form,
    MultiChoice,
    Open,
    Option,
    Question,
    Responder,
    Timeline,
)
from handraise.desk.local_desk import LocalDesk
from handraise.desk.policy_admin import put_policy
from handraise.model.identities import Role
from handraise.model.json_values import JsonValue
from handraise.model.provenance import Provenance
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WORKSPACE = "default"
PERSON = "ana"

_BEFORE = """image: payments:4.1.3
replicas: 6
readiness:
  path: /healthz
migrations: none"""
_AFTER = """image: payments:4.2.0
replicas: 8
readiness:
  path: /healthz
migrations: 0042_refunds"""
_ASKED = (
    ("release-agent", "May I restart the search cluster?"),
    ("support-agent", "Is the customer in Lyon a reseller?"),
    ("billing-agent", "Send the third reminder to Halden AS?"),
    ("support-agent", "May I offer free shipping?"),
    ("release-agent", "Roll web 9.1 back?"),
    ("billing-agent", "Is purchase order 8812 ours?"),
    ("research-agent", "May I read the whole archive, about 40,000 pages?"),
)
_ANSWERED = (
    (PERSON, "web"),
    ("bo", "slack"),
    (PERSON, "web"),
    ("chidi", "email"),
    ("bo", "web"),
    (PERSON, "cli"),
)
_REFUNDS = (18, 35, 420, 12, 80, 25, 39, 650, 9, 31)
"""What the customers of each day get back, in euros."""
_DENIED_REFUND = 39
_POLICY: dict[str, JsonValue] = {
    "time_zone": "Europe/Vienna",
    "rules": [
        {
            "name": "small refunds",
            "when": 'tool == "refund" && args.amount <= 40',
            "then": {"allow": {"check": 0.05}},
            "mode": "observe",
        },
        {
            "name": "large refunds",
            "when": 'tool == "refund" && args.amount > 500',
            "then": {"require": {"people": ["group:ops"], "quorum": 2, "valid_for": "1h"}},
            "mode": "observe",
        },
    ],
}
_MINUTES = (1, 4, 2, 38, 7, 0.4, 19, 3, 11, 130, 6)
_A_DAY = (6, 11, 8, 13, 9, 3, 4)
"""How many questions were answered on each of the last days."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A server in which all this has happened, and the questions that the pictures show."""

    ctx: ServerContext
    choice: Question
    approval: Question
    escalated: Question


@asynccontextmanager
async def open_scene(url: str) -> AsyncIterator[Scene]:
    """Play the last days on its own store, up to now."""
    now = datetime.now(UTC)
    clock = ManualClock(now - timedelta(days=len(_A_DAY)))
    settings = ServerSettings(url=url, workspace=WORKSPACE, rate_limit="100000/second")
    async with open_server(settings, clock=clock) as ctx:
        await _people(ctx)
        await put_policy(ctx.policies, WORKSPACE, _POLICY, by=PERSON, expected=0)
        for count in _A_DAY:
            await _day(ctx, clock, count)
        clock.advance(now - timedelta(minutes=70) - clock.now())
        escalated = await _escalated(_at(ctx, "billing-agent"))
        await _form(_at(ctx, "support-agent"))
        await _pass(clock, ctx, minutes=51)
        await _at(ctx, "research-agent").post(
            "Which of these sources may I cite in the market report?",
            form=MultiChoice.of("Eurostat 2026", "The vendor's white paper", "A forum thread", at_most=2),
            conversation="market report",
        )
        await _pass(clock, ctx, minutes=14)
        choice = await _choice(_at(ctx, "release-agent"))
        await _pass(clock, ctx, minutes=3)
        approval = await _approval(_at(ctx, "release-agent"))
        await _pass(clock, ctx, minutes=2)
        yield Scene(ctx, choice, approval, escalated)


@asynccontextmanager
async def stopped(ctx: ServerContext) -> AsyncIterator[None]:
    """A tool is stopped for as long as this context lasts."""
    why = "Two customers got their money back twice. Finance looks into it."
    stop = await ctx.policies.stop(WORKSPACE, tool="refund", why=why, by=PERSON)
    yield
    await ctx.policies.resume(WORKSPACE, stop.id, by=PERSON)


async def _people(ctx: ServerContext) -> None:
    for name, role in (("Ana Ruiz", Role.ADMIN), ("Bo Lind", Role.MEMBER), ("Chidi Obi", Role.MEMBER)):
        await ctx.directory.put_person(WORKSPACE, name.split()[0].lower(), name=name, email=None, role=role)
    await ctx.directory.put_group(WORKSPACE, "ops", {PERSON, "bo"})
    await ctx.directory.put_group(WORKSPACE, "finance", {"chidi"})


async def _escalated(desk: LocalDesk) -> Question:
    return await desk.post(
        "**Nordwind GmbH** disputes invoice 2026-1187 and wants **€1,240** back. May I send them a credit note?",
        form=Confirm(),
        context={"customer since": "2021", "invoice": "2026-1187"},
        recipients=["group:finance"],
        timeline=Timeline(
            escalate=(Escalation(after=timedelta(minutes=45), to=(PERSON,)),), expire=timedelta(hours=8)
        ),
    )


async def _choice(desk: LocalDesk) -> Question:
    return await desk.post(
        "Which strategy should I use to deploy payments 4.2?\n\n"
        "The dry run passed. The migration takes about 40 s on the copy of production.",
        form=Choice(
            options=(
                Option(
                    id="canary",
                    label="Canary",
                    description="One server in ten first, the others an hour later",
                ),
                Option(id="rolling", label="Rolling", description="One server after the other, starting now"),
                Option(
                    id="blue-green", label="Blue-green", description="A second set of servers, then a switch"
                ),
            ),
            allow_other=True,
        ),
        context={"service": "payments", "servers": 12, "error budget left": "71 %"},
        conversation="payments 4.2",
        recipients=["group:ops"],
        expires_in=timedelta(minutes=55),
    )


async def _approval(desk: LocalDesk) -> Question:
    return await desk.post(
        "Everything is ready for **payments 4.2**. May I start the rollout in `eu-west`?",
        form=Approval.of(
            "kubernetes.apply",
            {
                "cluster": "eu-west",
                "namespace": "payments",
                "release": "4.2.0",
                "percent": 10,
                "notify": True,
            },
            editable=["percent", "notify"],
            risk="high",
        ),
        context={"deployment.yaml": {"before": _BEFORE, "after": _AFTER}},
        conversation="payments 4.2",
        recipients=["group:ops"],
        expires_in=timedelta(hours=4),
        replies="program",
    )


async def _form(desk: LocalDesk) -> Question:
    return await desk.post(
        "A customer was charged twice. How should I make it good?",
        form=Form(
            fields=(
                Field(
                    name="refund",
                    title="Refund in €",
                    form=Open(type="number", minimum=0, maximum=500),
                    default=89.9,
                ),
                Field(name="when", title="Paid out on", form=Open(type="date")),
                Field(name="voucher", title="A voucher on top?", form=Confirm()),
                Field(name="words", title="What shall I write to them?", form=Open(), required=False),
            )
        ),
        context={"customer": "Ines Prado", "charged": "€ 89.90, twice", "order": "A-20977"},
        conversation="ticket 5512",
    )


async def _day(ctx: ServerContext, clock: ManualClock, count: int) -> None:
    """What is asked on a day: most of it answered soon, some late, and one by nobody."""
    for place in range(count):
        agent, prompt = _ASKED[(place + count) % len(_ASKED)]
        by, channel = _ANSWERED[(place * 5 + count) % len(_ANSWERED)]
        desk = _at(ctx, agent)
        question = await desk.post(prompt, form=Confirm(), expires_in=timedelta(hours=3))
        await _pass(clock, ctx, minutes=_MINUTES[(place * 3 + count) % len(_MINUTES)])
        if agent == "research-agent":
            await desk.decline(
                question.id,
                by=Responder(by),
                reason="Ten pages will do.",
                provenance=Provenance(channel=channel),
            )
        elif place or count % 2:
            await desk.answer(
                question.id, place % 4 != 0, by=Responder(by), provenance=Provenance(channel=channel)
            )
        await _pass(clock, ctx, minutes=20)
    for place in range(count // 3):
        await _refund(_at(ctx, "support-agent"), _REFUNDS[(place + count) % len(_REFUNDS)])
        await _pass(clock, ctx, minutes=5)
    midnight = (clock.now() + timedelta(days=1)).replace(hour=0, minute=5)
    clock.advance(min(midnight, datetime.now(UTC) - timedelta(hours=2)) - clock.now())


async def _refund(desk: LocalDesk, amount: int) -> None:
    """A refund; one of the small ones is denied."""
    question = await desk.post(
        f"May I give the customer €{amount} back?", form=Approval.of("refund", {"amount": amount})
    )
    denial: JsonValue = {"decision": "deny", "reason": "Paid already."}
    value = denial if amount == _DENIED_REFUND else "approve"
    await desk.answer(question.id, value, by=Responder("chidi"), provenance=Provenance(channel="web"))


def _at(ctx: ServerContext, agent: str) -> LocalDesk:
    return ctx.desk.scoped(WORKSPACE, asker=agent)


async def _pass(clock: ManualClock, ctx: ServerContext, *, minutes: float) -> None:
    clock.advance(timedelta(minutes=minutes))
    await ctx.desk.run_due()
