"""The page about oneself: for people only, about nobody else, and with names shown as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import httpx2

from handraise import Approval
from handraise.desk.local_desk import LocalDesk
from handraise.model.identities import Role
from handraise.server import ServerContext
from support.issuer import Issuer
from tests.server.conftest import bearer
from tests.server.inbox.browser import open_page, send


async def test_says_as_whom_one_answers(ann: httpx2.AsyncClient) -> None:
    words = (await open_page(ann, "/me")).words
    for part in ("Agents ask you as ann", "Groups ops", "You signed in on", "or until you sign out"):
        assert part in words
    assert "administer" not in words


async def test_says_who_administers(boss: httpx2.AsyncClient) -> None:
    words = (await open_page(boss, "/me")).words
    assert "which you administer" in words
    assert "Groups none" in words


async def test_shows_names_as_they_are(ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str) -> None:
    await ctx.directory.put_person(
        workspace, "ann", name="<b>Ann</b>\u202e", email="a<i>@example.com", role=Role.MEMBER
    )
    await ctx.directory.put_group(workspace, "<script>\u200b", ["ann"])
    shown = await ann.get("/me")
    assert "<b>Ann" not in shown.text
    assert "<i>@" not in shown.text
    assert "&lt;script&gt;‹U+200B›" in shown.text
    assert "\u202e" not in shown.text


async def test_is_for_people_who_are_signed_in(
    client: httpx2.AsyncClient, issuer: Issuer, workspace: str
) -> None:
    led = await client.get("/me")
    assert (led.status_code, led.headers["location"]) == (303, "/sign-in")
    agent = bearer(await issuer.agent(workspace, "bot"))
    assert (await client.get("/me", headers=agent)).status_code == 403


async def test_what_was_approved_ahead_is_listed_and_revoked_in_the_browser(
    ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, desk: LocalDesk
) -> None:
    form = Approval.of("refund", {"amount": 5}, scopes=["once", "always"])
    given = {}
    for person in ("ann", "bob"):
        question = await desk.post("Refund?", form=form, recipients=[person])
        given[person] = question.id
        await desk.answer(question.id, {"decision": "approve", "scope": "always"}, by=person)
    shown = await open_page(ann, f"/questions/{given['ann']}")
    assert "/me#grants" in shown.html
    mine, theirs = await open_page(ann, "/me"), await open_page(boss, "/me")
    [revoke] = [each for each in mine.sheets if each.action.endswith("/revoke")]
    assert given["ann"] in mine.html
    assert given["bob"] not in mine.html
    [not_mine] = [
        each for each in theirs.sheets if each.action.endswith("/revoke") and each.action != revoke.action
    ]
    assert (await send(ann, not_mine)).status_code == 404
    done = await send(ann, revoke)
    assert (done.status_code, done.headers["location"]) == (303, "/me#grants")
    assert "Nothing. Agents ask each time." in (await open_page(ann, "/me")).words
    assert [grant.revoked_by for grant in await desk.list_grants()].count("ann") == 1
    assert (await send(boss, not_mine)).status_code == 303
    assert "Nothing. Agents ask each time." in (await open_page(boss, "/me")).words


class TestSessions:
    async def test_elsewhere_are_listed_and_ended_one_by_one(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
    ) -> None:
        assert "Nowhere. This browser is the only place." in (await open_page(ann, "/me")).words
        for name, maker in (("phone", "boss<b>"), ("laptop", None)):
            await _signed_in(ctx, workspace, "ann", name, vouched_by=maker)
        await _signed_in(ctx, workspace, "boss", "other")
        shown = await open_page(ann, "/me")
        assert "Signed in by a sign-in link just now" in shown.words
        assert "boss<b> made the link" in shown.words
        ends = {each.action: each for each in shown.sheets if "/me/sessions/" in each.action}
        assert set(ends) == {
            "/me/sessions/phone/end",
            "/me/sessions/laptop/end",
            "/me/sessions/end-others",
        }
        done = await send(ann, ends["/me/sessions/phone/end"])
        assert (done.status_code, done.headers["location"]) == (303, "/me#sessions")
        assert await _sessions(ctx, workspace, "ann") == ["laptop"]
        [event] = (await ctx.store.workspace_events(workspace, after=None, limit=100))[-1:]
        assert (event.kind, event.by, event.details["session"]) == ("session.ended", "ann", "phone")
        assert (await send(ann, ends["/me/sessions/phone/end"])).status_code == 404

    async def test_of_others_are_not_for_members_to_end(
        self, ann: httpx2.AsyncClient, boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
    ) -> None:
        await _signed_in(ctx, workspace, "boss", "theirs")
        await _signed_in(ctx, workspace, "ann", "phone")
        sheet = (await open_page(ann, "/me")).sheets
        [end] = [each for each in sheet if each.action.endswith("/phone/end")]
        assert (await send(ann, replace(end, action="/me/sessions/theirs/end"))).status_code == 404
        assert await _sessions(ctx, workspace, "boss") == ["theirs"]
        assert (await send(boss, end)).status_code == 303
        assert await _sessions(ctx, workspace, "ann") == []

    async def test_are_ended_all_at_once_except_this_one(
        self, ann: httpx2.AsyncClient, ctx: ServerContext, workspace: str
    ) -> None:
        for name in ("phone", "laptop"):
            await _signed_in(ctx, workspace, "ann", name)
        [end] = [each for each in (await open_page(ann, "/me")).sheets if each.action.endswith("/end-others")]
        assert (await send(ann, end)).status_code == 303
        assert await _sessions(ctx, workspace, "ann") == []
        assert "Nowhere." in (await open_page(ann, "/me")).words


async def _signed_in(
    ctx: ServerContext, workspace: str, person: str, name: str, *, vouched_by: str | None = None
) -> None:
    await ctx.directory.open_session(
        workspace,
        name,
        digest=f"{workspace} {name}",
        person=person,
        how="sign-in",
        lasts=timedelta(days=2),
        vouched_by=vouched_by,
    )


async def _sessions(ctx: ServerContext, workspace: str, person: str) -> list[str]:
    """The sessions of somebody besides those that the tests themselves began."""
    found = await ctx.directory.sessions(workspace, person, limit=9)
    return [each.id for each in found if each.how != "test"]
