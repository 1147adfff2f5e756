"""People are found in Slack and Teams by the e-mail addresses of the directory: by the command and on the page of addresses."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handraise.model.deliveries import Address
from handraise.model.identities import Role
from handraise.model.workspace_events import WorkspaceEventKind
from handraise.ports.channel import NotSent
from handraise.server import ServerContext, ServerSettings, create_app
from handraise.server.account_search import AccountMatch, MatchState, find_accounts, open_find
from handraise.server.context import open_context
from handraise.testing import promise
from support.command import handraise
from support.issuer import Issuer
from tests.channels import slack_peer, teams_peer
from tests.channels.slack_peer import SlackPeer
from tests.channels.teams_peer import TeamsPeer
from tests.server.inbox.browser import Page

TEAMS_ANN = "11111111-0000-4000-8000-00000000000a"
BASE = "https://desk.example"


@pytest.fixture
async def slack() -> AsyncIterator[SlackPeer]:
    async with slack_peer.open_peer() as peer:
        yield peer


@pytest.fixture
async def teams() -> AsyncIterator[TeamsPeer]:
    async with teams_peer.open_peer() as peer:
        yield peer


@pytest.fixture
def settings(slack: SlackPeer, teams: TeamsPeer, migrated_file: Path, tmp_path: Path) -> dict[str, Any]:
    shutil.copy(migrated_file, tmp_path / "questions.db")
    return {
        "url": f"sqlite:///{tmp_path / 'questions.db'}",
        "public_url": BASE,
        "slack_bot_token": slack_peer.BOT_TOKEN,
        "slack_signing_secret": slack_peer.SECRET,
        "slack_api_url": slack.api_url,
        "teams_app_id": teams_peer.APP,
        "teams_app_secret": teams_peer.SECRET,
        "teams_tenant": teams_peer.TENANT,
        "teams_login_url": f"{teams.url}/login",
        "teams_graph_url": f"{teams.url}/v1.0",
    }


@pytest.fixture
async def ctx(settings: dict[str, Any]) -> AsyncIterator[ServerContext]:
    async with open_context(ServerSettings(**settings)) as ctx:
        for name in ("ann", "bob", "cid", "dan"):
            email = None if name == "dan" else f"{name}@example.org"
            await ctx.directory.put_person("default", name, name=name, email=email, role=Role.MEMBER)
        yield ctx


async def found(ctx: ServerContext, channel: str) -> list[AccountMatch]:
    async with open_find(ctx.settings, channel) as find:
        result = await find_accounts(ctx, "default", channel, find)
    assert result.problem is None
    return list(result.matches)


def brief(matches: list[AccountMatch]) -> list[tuple[str, str, str | None]]:
    return [(each.person.id, each.state.value, each.account.id if each.account else None) for each in matches]


async def addresses(ctx: ServerContext) -> list[tuple[str, str, Any]]:
    return [(each.recipient, each.id, each.to) for each in await ctx.outbox.addresses("default")]


async def test_people_are_found_by_their_address_and_nothing_changes(
    ctx: ServerContext, slack: SlackPeer
) -> None:
    slack.enrol("U0ANN", "Ann@example.org", "Ann")
    slack.enrol("U0DAN", "dan@example.org", "Dan")
    assert brief(await found(ctx, "slack")) == [
        ("ann", "found", "U0ANN"),
        ("bob", "nobody", None),
        ("cid", "nobody", None),
    ]
    assert await addresses(ctx) == []


@pytest.mark.parametrize(
    "more",
    [
        {"deleted": True},
        {"is_bot": True},
        {"is_stranger": True},
        {"team_id": "T0OTHER"},
        {"is_email_confirmed": False},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_whoever_is_no_confirmed_member_of_the_team_is_nobody(
    ctx: ServerContext, slack: SlackPeer, more: dict[str, Any]
) -> None:
    slack.enrol("U0ANN", "ann@example.org", "Ann", **more)
    assert {each.state for each in await found(ctx, "slack")} == {MatchState.NOBODY}


async def test_the_account_of_somebody_else_is_proposed_to_nobody(
    ctx: ServerContext, slack: SlackPeer
) -> None:
    slack.enrol("U0ANN", "ann@example.org", "Ann")
    await ctx.outbox.put_address(
        Address(workspace="default", recipient="dan", channel="slack", id="U0ANN", to={"user": "U0ANN"})
    )
    assert brief(await found(ctx, "slack"))[0] == ("ann", "taken", "U0ANN")


@pytest.mark.parametrize(
    ("more", "is_found"),
    [({}, True), ({"accountEnabled": False}, False), ({"userType": "Guest"}, False)],
)
async def test_members_of_the_tenant_are_found_for_teams_and_guests_are_not(
    ctx: ServerContext, teams: TeamsPeer, more: dict[str, Any], *, is_found: bool
) -> None:
    teams.enrol(TEAMS_ANN.upper(), "ANN@example.org", "Ann O'Neil", **more)
    [ann, *others] = brief(await found(ctx, "teams"))
    assert ann == (("ann", "found", TEAMS_ANN) if is_found else ("ann", "nobody", None))
    assert {state for _, state, _ in others} == {"nobody"}


async def test_an_address_is_no_part_of_the_filter_and_two_accounts_are_none(
    ctx: ServerContext, teams: TeamsPeer
) -> None:
    await ctx.directory.put_person("default", "ann", name="ann", email="o'neil@example.org", role=Role.MEMBER)
    teams.enrol(TEAMS_ANN, "o'neil@example.org", "Ann O'Neil")
    assert brief(await found(ctx, "teams"))[0] == ("ann", "found", TEAMS_ANN)
    teams.enrol("22222222-0000-4000-8000-00000000000b", "o'neil@example.org", "Another")
    assert brief(await found(ctx, "teams"))[0] == ("ann", "nobody", None)


async def test_why_nobody_can_be_found_is_said(ctx: ServerContext, slack: SlackPeer) -> None:
    slack.may_read_emails = False
    async with open_find(ctx.settings, "slack") as find:
        with pytest.raises(NotSent, match="missing_scope"):
            await find("ann@example.org")
        result = await find_accounts(ctx, "default", "slack", find)
    assert (result.matches, "missing_scope" in (result.problem or "")) == ([], True)


@promise("P17")
async def test_an_administrator_sets_who_was_found_on_the_page_of_addresses(
    ctx: ServerContext, slack: SlackPeer
) -> None:
    slack.enrol("U0ANN", "ann@example.org", "Ann <b>there</b>")
    slack.enrol("U0BOB", "bob@example.org", "Bob")
    issuer = Issuer(ctx.directory)
    tokens = {
        name: await issuer.person("default", name, role=role)
        for name, role in (("root", Role.ADMIN), ("mia", Role.MEMBER))
    }
    transport = httpx2.ASGITransport(app=create_app(ctx))
    clients = {}
    for name, token in tokens.items():
        clients[name] = httpx2.AsyncClient(transport=transport, base_url=BASE, headers={"origin": BASE})
        clients[name].cookies.set("__Host-handraise", token)
        clients[name].cookies.set("handraise", token)
    root, mia = clients["root"], clients["mia"]
    assert (await mia.get("/admin/addresses/find?channel=slack")).status_code == 403
    sent = {"channel": "slack", "person": ["ann"]}
    assert (await mia.post("/admin/addresses/find", data=sent)).status_code == 403
    assert (await root.get("/admin/addresses/find?channel=telegram")).status_code == 404
    text = (await root.get("/admin/addresses/find?channel=slack")).text
    page = Page(text)
    assert "<b>there" not in text
    assert "nobody has this address there" in page.words
    [form] = [each for each in page.sheets if each.action == "/admin/addresses/find"]
    assert [each.value for each in form.inputs if each.name == "person"] == ["ann", "bob"]
    assert await addresses(ctx) == []
    done = await root.post("/admin/addresses/find", data=sent | {"person": ["ann", "dan", "nobody"]})
    assert done.headers["location"] == "/admin/addresses?done=saved"
    assert await addresses(ctx) == [("ann", "U0ANN", {"user": "U0ANN"})]
    events = await ctx.store.workspace_events("default", after=None, limit=100)
    assert [each.by for each in events if each.kind is WorkspaceEventKind.ADDRESS_ADDED] == ["root"]
    for each in clients.values():
        await each.aclose()


@promise("P17")
async def test_the_command_proposes_and_saves_only_when_told_to(
    ctx: ServerContext, slack: SlackPeer, settings: dict[str, Any]
) -> None:
    slack.enrol("U0ANN", "ann@example.org", "Ann")
    given = {name: value for name, value in settings.items() if name.startswith("slack")}

    async def run(*words: str, **changes: str) -> Any:
        return await asyncio.to_thread(
            handraise, "people", "find", "--channel", *words, url=settings["url"], **(given | changes)
        )

    proposed = await run("slack")
    assert proposed.returncode == 0, proposed.stderr
    assert "U0ANN" in proposed.stdout
    assert "run it again with --save" in proposed.stdout
    assert await addresses(ctx) == []
    saved = await run("slack", "--save")
    assert (saved.returncode, "Saved 1 address." in saved.stdout) == (0, True)
    assert await addresses(ctx) == [("ann", "U0ANN", {"user": "U0ANN"})]
    events = await ctx.store.workspace_events("default", after=None, limit=100)
    [by] = [each.by for each in events if each.kind is WorkspaceEventKind.ADDRESS_ADDED]
    assert str(by).startswith("command line")
    refused = await run("teams")
    assert (refused.returncode != 0, "only on: slack" in refused.stderr) == (True, True)
