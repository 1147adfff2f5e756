"""Administration of people, groups and keys: every form works without scripts, keeps what was typed, and is audited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from handraise.desk.local_desk import LocalDesk
from handraise.model.away import Away
from handraise.model.identities import Role
from handraise.model.workspace_events import WorkspaceEventKind
from handraise.server import ServerContext
from handraise.testing.promises import promise
from support.issuer import Issuer
from tests.server.conftest import ORIGIN, bearer
from tests.server.inbox.browser import Page, Sheet, open_page, send

SURE = ("sure", "true")


async def acts(ctx: ServerContext, workspace: str, kind: WorkspaceEventKind) -> list[str | None]:
    """Who did this, as the audit trail says."""
    found = await ctx.store.workspace_events(workspace, after=None, limit=500)
    return [each.by for each in found if each.kind is kind]


def form(page: Page, action: str) -> Sheet:
    [found] = [each for each in page.sheets if each.action == action]
    return found


async def post(client: httpx2.AsyncClient, path: str, **fields: str | list[str]) -> httpx2.Response:
    return await client.post(path, data=fields, headers=ORIGIN)


async def test_what_needs_somebody_else_is_said_before_somebody_goes(
    boss: httpx2.AsyncClient, ctx: ServerContext, desk: LocalDesk, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "ann")
    await desk.post("Go?", recipients=["ann"])
    away = Away(starts=datetime.now(UTC), until=datetime.now(UTC) + timedelta(days=1), deputy="ann")
    await ctx.directory.set_away(workspace, "boss", away)
    for action in ("disable", "remove"):
        asked = Page((await post(boss, f"/admin/people/ann/{action}")).text).words
        assert "Then this needs somebody else:" in asked
        assert "1 question that nobody else can answer" in asked
        assert "answering while these are away: boss" in asked
    asked = Page((await post(boss, "/admin/people/boss/remove")).text).words
    assert "needs somebody else" not in asked


@promise("P17")
async def test_somebody_is_added_invited_changed_and_removed(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    add = form(await open_page(boss, "/admin/people"), "/admin/people")
    add.fill("person", "ann")
    add.fill("name", "Ann <b>Doe</b>")
    add.fill("email", "ann@example.com")
    done = await send(boss, add)
    assert (done.status_code, done.headers["location"]) == (303, "/admin/people/ann?done=added")
    page = await open_page(boss, "/admin/people/ann?done=added")
    assert "Added." in page.words
    assert "<b>Doe" not in page.html
    invited = await send(boss, form(page, "/admin/people/ann/link"))
    assert "/sign-in/link?token=hrl_" in invited.text
    assert invited.headers["cache-control"] == "no-store"
    change = form(page, "/admin/people/ann")
    change.tick("role", "admin")
    assert (await send(boss, change)).status_code == 303
    ann = await ctx.directory.find_person(workspace, "ann")
    assert ann is not None
    assert (ann.name, ann.email, ann.role) == ("Ann <b>Doe</b>", "ann@example.com", Role.ADMIN)
    asked = await send(boss, form(page, "/admin/people/ann/remove"))
    assert await ctx.directory.find_person(workspace, "ann") is not None, "it asks first"
    assert (await send(boss, form(Page(asked.text), "/admin/people/ann/remove"), SURE)).status_code == 303
    assert await ctx.directory.find_person(workspace, "ann") is None
    for kind in (
        WorkspaceEventKind.PERSON_ADDED,
        WorkspaceEventKind.LINK_CREATED,
        WorkspaceEventKind.PERSON_CHANGED,
        WorkspaceEventKind.PERSON_REMOVED,
    ):
        assert (await acts(ctx, workspace, kind))[-1] == "boss", kind


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"person": "", "email": "a@b"}, "person", "Write the name under which agents ask them"),
        ({"person": "boss", "email": "a@b"}, "person", "There is somebody with this name already"),
        ({"person": "group:x", "email": "a@b"}, "person", ""),
        ({"person": "ann", "email": "nobody"}, "email", "That is not an e-mail address"),
        ({"person": "ann", "email": "a@b", "role": "king"}, "role", "Choose one of the two roles"),
    ],
)
async def test_what_is_wrong_is_said_at_its_field_and_nothing_is_lost(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str, typed: dict[str, str], field: str, said: str
) -> None:
    refused = await post(boss, "/admin/people", name="Ann <Doe>", **typed)
    assert refused.status_code == 422
    assert f'id="{field}-problem"' in refused.text
    assert said in refused.text
    assert 'value="Ann &lt;Doe&gt;"' in refused.text
    assert f'value="{typed["email"]}"' in refused.text
    assert [each.id for each in await ctx.directory.people(workspace, after=None, limit=9)] == ["boss"]


async def test_the_last_administrator_stays(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    stepped = await post(boss, "/admin/people/boss", name="boss", role="member")
    assert stepped.status_code == 422
    assert "no administrator left" in stepped.text
    removed = await post(boss, "/admin/people/boss/remove", sure="true")
    assert removed.status_code == 403
    assert "no administrator left" in removed.text
    found = await ctx.directory.find_person(workspace, "boss")
    assert found is not None
    assert found.role is Role.ADMIN


@promise("P17")
async def test_sessions_end_and_passkeys_are_removed(
    boss: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    token = await issuer.person(workspace, "ann", role=Role.MEMBER)
    for name in ("phone", "tablet"):
        await ctx.directory.open_session(
            workspace, name, digest=name, person="ann", how="sign-in", lasts=timedelta(days=1)
        )
    await ctx.directory.add_passkey(
        workspace, "k", person="ann", name="Yubi", domain="localhost", public_key="", sign_count=0
    )
    page = await open_page(boss, "/admin/people/ann")
    assert (await send(boss, form(page, "/admin/people/ann/sessions/phone/end"))).status_code == 303
    assert "phone" not in [each.id for each in await ctx.directory.sessions(workspace, "ann", limit=9)]
    assert (await post(boss, "/admin/people/boss/sessions/tablet/end")).status_code == 404
    assert (await send(boss, form(page, "/admin/people/ann/sessions/end"))).status_code == 303
    assert await ctx.directory.sessions(workspace, "ann", limit=9) == []
    assert (await boss.get("/v1/me", headers=bearer(token))).status_code == 401
    asked = await send(boss, form(page, "/admin/people/ann/passkeys/k/remove"))
    done = await send(boss, form(Page(asked.text), "/admin/people/ann/passkeys/k/remove"), SURE)
    assert done.status_code == 303
    assert await ctx.directory.passkeys(workspace, "ann") == []
    assert set(await acts(ctx, workspace, WorkspaceEventKind.SESSION_ENDED)) == {"boss"}
    assert await acts(ctx, workspace, WorkspaceEventKind.PASSKEY_REMOVED) == ["boss"]


@promise("P17")
async def test_a_group_gets_members_hours_and_a_rota(
    boss: httpx2.AsyncClient, ctx: ServerContext, issuer: Issuer, workspace: str
) -> None:
    await issuer.person(workspace, "ann", role=Role.MEMBER)
    add = form(await open_page(boss, "/admin/groups"), "/admin/groups")
    add.fill("name", "ops")
    empty = await send(boss, add)
    assert empty.status_code == 422
    assert "Choose at least one person" in empty.text
    add.tick("people", "ann", "boss")
    assert (await send(boss, add)).headers["location"] == "/admin/groups/ops?done=added"
    page = await open_page(boss, "/admin/groups/ops")
    members = form(page, "/admin/groups/ops")
    members.tick("people", "ann")
    assert (await send(boss, members)).status_code == 303
    assert (await ctx.directory.groups(workspace))["ops"] == ["ann"]
    late = await send(boss, members)
    assert late.status_code == 409
    assert "Somebody has changed this since you opened this page" in late.text
    wrong = await post(boss, "/admin/groups/ops/hours", hours="always", time_zone="Mars/Here")
    assert wrong.status_code == 422
    assert 'value="always"' in wrong.text
    assert "These hours cannot be read" in wrong.text
    assert "That is not a time zone" in wrong.text
    right = {"hours": "Mon-Fri 09:00-17:00", "time_zone": "Europe/Berlin"}
    assert (await post(boss, "/admin/groups/ops/hours", **right)).status_code == 303
    assert (await post(boss, "/admin/groups/hours", **right)).status_code == 303
    private = await post(boss, "/admin/groups/ops/rota", address="http://10.0.0.1/x.ics")
    assert private.status_code == 422
    assert "https address" in private.text
    both = await post(boss, "/admin/groups/ops/rota", address="https://a.example/x", text="y")
    assert "one of the two" in both.text
    calendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nEND:VCALENDAR"
    assert (await post(boss, "/admin/groups/ops/rota", text=calendar)).status_code == 303
    shown = await open_page(boss, "/admin/groups/ops")
    assert "from file" in shown.words
    assert "Nobody, so the whole group is notified." in shown.words
    assert "Nobody is on duty in the group ops" in (await open_page(boss, "/admin")).words
    calendars = await ctx.directory.calendars(workspace)
    assert calendars.groups["ops"].hours is not None
    assert (await post(boss, "/admin/groups/ops/hours", remove="true")).status_code == 303
    assert (await post(boss, "/admin/groups/ops/rota", remove="true")).status_code == 303
    asked = await post(boss, "/admin/groups/ops")
    assert "ops" in await ctx.directory.groups(workspace), "it asks first"
    assert (await send(boss, form(Page(asked.text), "/admin/groups/ops"), SURE)).status_code == 303
    assert "ops" not in await ctx.directory.groups(workspace)
    for kind in (
        WorkspaceEventKind.GROUP_CHANGED,
        WorkspaceEventKind.HOURS_CHANGED,
        WorkspaceEventKind.ROTA_CHANGED,
    ):
        assert set(await acts(ctx, workspace, kind)) == {"boss"}, kind


@promise("P17")
async def test_a_key_is_created_shown_once_used_and_revoked(
    boss: httpx2.AsyncClient, ctx: ServerContext, workspace: str
) -> None:
    page = await open_page(boss, "/admin/keys")
    create = form(page, "/admin/keys")
    create.fill("agent", "deploy-bot")
    made = await send(boss, create)
    assert made.status_code == 200
    key = made.text.partition("hra_")[2].partition("<")[0]
    headers = bearer(f"hra_{key}")
    client = boss
    asked = await client.post(
        "/v1/questions", json={"prompt": "Go?", "form": {"kind": "confirm"}}, headers=headers
    )
    assert asked.status_code == 201, asked.text
    listed = await open_page(boss, "/admin/keys")
    assert key not in listed.html
    assert "deploy-bot" in listed.words
    [revoke] = [each for each in listed.sheets if each.action.endswith("/revoke")]
    confirm = Page((await send(boss, revoke)).text)
    assert (await client.get("/v1/me", headers=headers)).status_code == 200, "it asks first"
    assert (await send(boss, form(confirm, revoke.action), SURE)).status_code == 303
    assert (await client.get("/v1/me", headers=headers)).status_code == 401
    reader = await post(boss, "/admin/keys", agent="dashboard", kind="reader")
    assert "hrr_" in reader.text
    refused = await post(boss, "/admin/keys", agent="reader:x")
    assert refused.status_code == 422
    assert 'value="reader:x"' in refused.text
    assert (await post(boss, "/admin/keys", agent="a\nb")).status_code == 422
    assert await acts(ctx, workspace, WorkspaceEventKind.KEY_CREATED) == ["boss", "boss"]
    assert await acts(ctx, workspace, WorkspaceEventKind.KEY_REVOKED) == ["boss"]
