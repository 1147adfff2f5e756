"""People's accounts at chat services, found by the e-mail addresses of the directory.

An account is proposed, and becomes an address only when an administrator says so. Whoever reads the mailbox of an address
could have the account of that address: so could they sign in here by a link to it. Nobody changes their own address in our
directory, and the service says only who has confirmed it, or whom the organisation gave it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

import httpx2

from handraise.channels.account_links import ChatAccount
from handraise.desk.everybody import everybody
from handraise.model.deliveries import Address
from handraise.model.identities import Person
from handraise.model.people import ANYONE, GROUP
from handraise.ports import Outbox
from handraise.ports.channel import NotSent
from handraise.server.context import ServerContext
from handraise.server.settings import ServerSettings

_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)
MOST = 500
"""How many people are looked for at once."""


class MatchState(StrEnum):
    """What came of looking for somebody."""

    FOUND = "found"
    NOBODY = "nobody"
    TAKEN = "taken"
    """It is the account of somebody else here already."""


@dataclass(frozen=True, slots=True)
class AccountMatch:
    """A person, and the account that has their e-mail address."""

    person: Person
    state: MatchState
    account: ChatAccount | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Who was looked for. `problem` says why the search ended before everybody was."""

    matches: Sequence[AccountMatch]
    problem: str | None = None


Find = Callable[[str], Awaitable[ChatAccount | None]]
"""Finds the account with an e-mail address that the service or the organisation has checked; raises `NotSent`."""


def searchable(settings: ServerSettings) -> list[str]:
    """The channels on which people can be found."""
    is_on = {"slack": settings.slack_bot_token, "teams": settings.teams_app_id}
    return [name for name, setting in is_on.items() if setting is not None]


@asynccontextmanager
async def open_find(settings: ServerSettings, channel: str) -> AsyncIterator[Find]:
    """What finds accounts on one of the searchable channels."""
    async with httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client:
        if channel == "slack":
            from handraise.channels.slack.api import SlackApi  # noqa: PLC0415 -- an extra

            token = settings.slack_bot_token
            api = SlackApi(client, token.get_secret_value() if token else "", settings.slack_api_url)
            yield api.find_account
            return
        from handraise.channels.oauth_tokens import AccessTokens, ClientCredentials  # noqa: PLC0415 -- an extra
        from handraise.channels.teams.accounts import Accounts  # noqa: PLC0415 -- an extra

        secret, url = settings.teams_app_secret, urlsplit(settings.teams_graph_url)
        tokens = AccessTokens(
            client,
            ClientCredentials(settings.teams_app_id or "", secret.get_secret_value() if secret else ""),
            token_url=f"{settings.teams_login_url.rstrip('/')}/{settings.teams_tenant}/oauth2/v2.0/token",
            scope=f"{url.scheme}://{url.netloc}/.default",
            issuer="Microsoft",
        )
        yield Accounts(client, tokens, settings.teams_graph_url).find


async def find_accounts(ctx: ServerContext, workspace: str, channel: str, find: Find) -> SearchResult:
    """Look for everybody who has an e-mail address and no address on this channel. Changes nothing."""
    addresses = await ctx.outbox.addresses(workspace)
    reached = {each.recipient for each in addresses if each.channel == channel}
    matches: list[AccountMatch] = []
    async for person in everybody(ctx.directory, workspace):
        if person.email is None or person.id in reached:
            continue
        if len(matches) == MOST:
            return SearchResult(matches, f"only {MOST} people are looked for at once; set these, then go on")
        try:
            account = await find(person.email)
        except NotSent as error:
            return SearchResult(matches, str(error))
        matches.append(await _match(ctx.outbox, person, channel, account, matches))
    return SearchResult(matches)


async def set_account(
    ctx: ServerContext, person: Person, channel: str, account: ChatAccount, *, by: str
) -> bool:
    """Let somebody be reached at this account; False if it is somebody else's here. It is an event of the audit trail."""
    if await is_taken(ctx.outbox, person.workspace, person.id, channel, account.id):
        return False
    await ctx.outbox.put_address(
        Address(
            workspace=person.workspace, recipient=person.id, channel=channel, id=account.id, to=account.to
        ),
        by=by,
    )
    return True


async def is_taken(outbox: Outbox, workspace: str, person: str, channel: str, identity: str) -> bool:
    """Whether an account belongs to somebody else: of two people with one account, neither could answer."""
    owners = await outbox.recipients_at(workspace, channel, identity)
    return any(each not in (person, ANYONE) and not each.startswith(GROUP) for each in owners)


async def _match(
    outbox: Outbox,
    person: Person,
    channel: str,
    account: ChatAccount | None,
    before: Sequence[AccountMatch],
) -> AccountMatch:
    if account is None:
        return AccountMatch(person, MatchState.NOBODY)
    twice = any(each.account is not None and each.account.id == account.id for each in before)
    if twice or await is_taken(outbox, person.workspace, person.id, channel, account.id):
        return AccountMatch(person, MatchState.TAKEN, account)
    return AccountMatch(person, MatchState.FOUND, account)
