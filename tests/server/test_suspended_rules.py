"""A denied spot check suspends a rule: its author is told by mail, and the author and administrators in the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise import Approval
from handraise.desk.rule_suspensions import find_author
from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.model.people import Responder
from handraise.server import ServerContext, ServerSettings, create_app, open_server
from support.issuer import Issuer
from tests.channels.mail_servers import PostOffice, post_office

RULE = {"name": "small <refunds>", "when": "tool == 'refund'", "then": {"allow": {"check": 1}}}
OTHER = {"name": "other", "when": "tool == 'pay'", "then": {"deny": "no"}}
PLACE = "default"


@pytest.fixture
async def office() -> AsyncIterator[PostOffice]:
    async with post_office() as office:
        yield office


@pytest.fixture
async def ctx(office: PostOffice, tmp_path: Path) -> AsyncIterator[ServerContext]:
    settings = ServerSettings(
        url=f"sqlite:///{tmp_path / 'questions.db'}",
        public_url="https://ask.example.org",
        secret="s" * 32,
        email_smtp_url=f"smtp://127.0.0.1:{office.port}?tls=none",
        email_from="Handraise <desk@example.org>",
    )
    async with open_server(settings) as ctx:
        for name in ("ann", "zoe"):
            await ctx.directory.put_person(PLACE, name, name=name, email=None, role=Role.ADMIN)
            mail = f"{name}@example.org"
            await ctx.outbox.put_address(
                Address(workspace=PLACE, recipient=name, channel="email", id=mail, to={"address": mail})
            )
        # Zoe applied a later version, which changed another rule, and the mode of this one.
        await put(ctx, [RULE | {"mode": "observe"}], by="ann")
        await put(ctx, [OTHER, RULE], by="zoe")
        yield ctx


async def put(ctx: ServerContext, rules: list[Any], *, by: str) -> None:
    current = await ctx.policies.current(PLACE)
    expected = 0 if current is None else current.version.version
    assert await ctx.policies.put(PLACE, {"time_zone": "UTC", "rules": rules}, by=by, expected=expected)


async def deny(ctx: ServerContext, number: int = 1) -> None:
    desk = ctx.desk.scoped(PLACE, asker="bot")
    questions = [
        await desk.post("Refund\r\nBcc: <b>5</b>?", form=Approval.of("refund", {"amount": 5}))
        for _ in range(number)
    ]
    for question in questions:
        await desk.answer(question.id, "deny", by=Responder("bo"))


async def queue_of(ctx: ServerContext, name: str, role: Role) -> str:
    token = await Issuer(ctx.directory).person(PLACE, name, role=role)
    transport = httpx2.ASGITransport(app=create_app(ctx), client=("192.0.2.1", 50_000))
    async with httpx2.AsyncClient(transport=transport, base_url="https://ask.example.org") as browser:
        browser.cookies.set("__Host-handraise", token)
        shown = await browser.get("/")
        assert shown.status_code == 200, shown.text
        return shown.text


async def test_its_author_gets_one_mail(ctx: ServerContext, office: PostOffice) -> None:
    await deny(ctx, 2)
    mail = await office.mail_to("ann@example.org")
    await asyncio.gather(*ctx.background_tasks)
    about = [each for each in office.mails if "suspended" in each.message["Subject"]]
    assert [each.to for each in about] == ["ann@example.org"], "the author of the rule, and once"
    assert mail.message["Subject"] == "Your rule “small <refunds>” was suspended"
    assert "a spot check of it was denied by bo." in mail.text.replace("\n", " ")
    assert "Bcc: <b>5</b>?" in mail.text
    assert "<b>5" not in mail.html
    assert mail.message["Bcc"] is None
    assert "https://ask.example.org/policy" in mail.text
    assert b"handraise_spot_checks_denied_total 2.0" in ctx.metrics.render()


async def test_a_mail_server_that_refuses_it_changes_nothing_else(
    ctx: ServerContext, office: PostOffice
) -> None:
    office.says["ann@example.org"] = "550 no such user"
    await deny(ctx)
    await asyncio.gather(*ctx.background_tasks)
    assert "Your rule" in await queue_of(ctx, "ann", Role.ADMIN)


async def test_the_author_and_administrators_see_it_until_it_is_resumed_or_the_rule_changed(
    ctx: ServerContext,
) -> None:
    assert "suspended" not in await queue_of(ctx, "ann", Role.ADMIN)
    await deny(ctx)
    told = await queue_of(ctx, "ann", Role.ADMIN)
    assert "Your rule “small &lt;refunds&gt;” was suspended: a spot check of it was denied by bo." in told
    assert "The rule “small &lt;refunds&gt;” was suspended" in await queue_of(ctx, "zoe", Role.ADMIN)
    assert "suspended" not in await queue_of(ctx, "max", Role.MEMBER)
    demoted = await queue_of(ctx, "ann", Role.MEMBER)
    assert "Your rule" in demoted
    assert 'href="/policy"' not in demoted
    await put(ctx, [RULE | {"when": "tool == 'refund' && args.amount < 5"}], by="zoe")
    assert "suspended" not in await queue_of(ctx, "ann", Role.ADMIN)
    assert await find_author(ctx.policies, PLACE, "small <refunds>") == "zoe"
    await put(ctx, [RULE], by="zoe")
    assert "Your rule" in await queue_of(ctx, "zoe", Role.ADMIN), "who writes it again is its author"
    current = await ctx.policies.current(PLACE)
    assert current is not None
    [suspension] = current.suspensions
    await ctx.policies.lift_suspension(PLACE, suspension.rule, name="small <refunds>", by="zoe")
    assert "suspended" not in await queue_of(ctx, "zoe", Role.ADMIN)
