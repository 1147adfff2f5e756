"""The first page of the administration: what needs attention, and where everything is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from handraise.desk.everybody import everybody
from handraise.desk.rule_suspensions import suspended_rules
from handraise.model.identities import AgentKey, Person
from handraise.model.visible import visible_line
from handraise.policies.rule_shortages import staffing_of
from handraise.policies.rules import parse_policy
from handraise.ports.outbox import ChannelTrouble
from handraise.presentation.error_text import error_text
from handraise.presentation.names import channel_name, listed, recipient_name
from handraise.presentation.stop_text import stop_title
from handraise.presentation.translation import gettext, grouped, ngettext
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.high_risk_approvers import high_risk_approvers
from handraise.server.rota_refresh import warnings_of
from handraise.server.web.admin.admin_views import admin_page
from handraise.server.web.admin.channel_troubles import (
    failed_by_channel,
    failed_title,
    retried_by_channel,
    retried_title,
)
from handraise.server.web.admin.group_pages import href_of as group_href
from handraise.server.web.inbox.page_texts import since
from handraise.server.web.pages import PageRoute

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_PAGE = 500
_MOST_READ = 5_000
_LONG_UNUSED = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an administrator should look at. Everything in it may be shown as it is."""

    level: Literal["bad", "loud", "info"]
    title: str
    text: str
    href: str
    link: str


@pages.get("/admin")
async def show_overview(ctx: Context, admin: CurrentAdmin) -> Response:
    """Show what needs attention."""
    people = [each async for each in everybody(ctx.directory, admin.workspace, at_most=_MOST_READ)]
    all_known = len(people) < _MOST_READ
    keys = await _keys(ctx, admin.workspace)
    groups = await ctx.directory.groups(admin.workspace)
    addresses = await ctx.outbox.addresses(admin.workspace)
    usable = [each for each in keys if each.revoked_at is None]
    return admin_page(
        "overview",
        admin,
        "overview",
        workspace=visible_line(admin.workspace),
        notices=[
            *await _stops(ctx, admin),
            *await _failed(ctx, admin),
            *await _retried(ctx, admin),
            *await _suspended(ctx, admin),
            *(await _understaffed(ctx, admin, people, groups) if all_known else []),
            *await _rotas(ctx, admin),
            *(await _high_risk(ctx, admin, people) if all_known else []),
            *(_administrators(people) if all_known else [_unchecked(people)]),
            *await _safety(ctx, admin),
            *_unused(usable),
        ],
        steps=[
            (
                bool(usable),
                gettext("Create a key for your first agent"),
                "/admin/keys#add",
            ),
            (len(people) > 1, gettext("Add the people who answer"), "/admin/people#add"),
            (
                bool(ctx.channels),
                gettext("Turn on a channel, such as e-mail or Slack, in the settings of the server"),
                "/admin/channels",
            ),
            (
                bool(addresses),
                gettext("Say where people are reached"),
                "/admin/addresses",
            ),
        ],
        figures=[
            (gettext("People"), _count(len(people), are_all=all_known), "/admin/people"),
            (gettext("Groups"), grouped(len(groups)), "/admin/groups"),
            (gettext("Keys in use"), _count(len(usable), are_all=len(keys) < _MOST_READ), "/admin/keys"),
            (gettext("Channels"), grouped(len(ctx.channels)), "/admin/channels"),
        ],
        channels=", ".join(channel_name(each) for each in sorted(ctx.channels)),
    )


def _count(number: int, *, are_all: bool) -> str:
    return grouped(number) if are_all else gettext("{count} or more").format(count=grouped(number))


async def _stops(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    return [
        Notice("bad", stop_title(each), visible_line(each.why)[:200], "/stops", gettext("See the stops"))
        for each in await ctx.policies.stops(admin.workspace)
    ]


async def _failed(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    """The channels through which messages failed that somebody still waits for."""
    return [
        Notice(
            "bad",
            failed_title(each),
            gettext("Their questions still wait. See why, and try again.")
            if each.channel in ctx.channels
            else gettext("This server does not have that channel any more. Change the addresses."),
            "/admin/deliveries",
            gettext("See what failed"),
        )
        for each in _most_first(await failed_by_channel(ctx, admin.workspace))
    ]


async def _retried(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    """The channels through which messages may not get out at the moment."""
    now = datetime.now(UTC)
    return [
        Notice(
            "loud",
            retried_title(each),
            gettext("The oldest was created {when}. Its last try: {problem}").format(
                when=since(each.since, now).text, problem=visible_line(each.problem or "")
            ),
            "/admin/deliveries",
            gettext("See what is tried again"),
        )
        for each in _most_first(await retried_by_channel(ctx, admin.workspace))
    ]


def _most_first(found: Mapping[str, ChannelTrouble]) -> list[ChannelTrouble]:
    return sorted(found.values(), key=lambda each: -each.number)


async def _suspended(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    return [
        Notice(
            "loud",
            gettext("The rule {name} is suspended").format(name=visible_line(each.name)),
            gettext("Somebody denied a spot check of it. It allows nothing until you resume it."),
            "/policy",
            gettext("See the policy"),
        )
        for each in suspended_rules(await ctx.policies.current(admin.workspace))
    ]


async def _understaffed(
    ctx: ServerContext, admin: PersonCaller, people: Sequence[Person], groups: Mapping[str, Collection[str]]
) -> list[Notice]:
    """The rules for which there are not enough people."""
    current = await ctx.policies.current(admin.workspace)
    if current is None:
        return []
    policy = parse_policy(current.version.document)
    active = [each.id for each in people if each.disabled_at is None]
    title = gettext("Nobody can fulfil the rule {name}")
    need = gettext("It asks {names}: {needed} must agree, and {there} could.")
    return [
        Notice(
            "bad",
            title.format(name=visible_line(each.rule)),
            need.format(
                needed=each.needed,
                names=listed([recipient_name(name) for name in each.names])
                if each.names
                else gettext("all people here"),
                there=each.there,
            ),
            "/policy",
            gettext("See the policy"),
        )
        for each in staffing_of(policy, active, groups)
        if each.is_short
    ]


async def _rotas(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    found = warnings_of(await ctx.directory.calendars(admin.workspace))
    return [
        Notice(
            "loud",
            gettext("Nobody is on duty in the group {name}").format(name=visible_line(name))
            if problem is None
            else gettext("The rota of the group {name} cannot be used").format(name=visible_line(name)),
            gettext("The whole group is notified.")
            if problem is None
            else gettext("The whole group is notified: {problem}").format(problem=error_text(problem)),
            f"{group_href(name)}#rota",
            gettext("See the group"),
        )
        for name, problem in found
    ]


async def _high_risk(ctx: ServerContext, admin: PersonCaller, people: Sequence[Person]) -> list[Notice]:
    """Whether nobody can approve an action of high risk, or only one of several people."""
    able = await high_risk_approvers(ctx.directory, ctx.settings, admin.workspace, people)
    active = [each for each in people if each.disabled_at is None]
    if len(able) > 1 or len(able) == len(active):
        return []
    return [
        Notice(
            "loud" if able else "bad",
            gettext("Only {person} can approve an action of high risk").format(person=visible_line(*able))
            if able
            else gettext("Nobody here can approve an action of high risk"),
            gettext(
                "Links made in the browser are too weak: whoever makes one could use it. Run handraise people link NAME on the "
                "server: people who sign in with that link can approve, and if they add a passkey within 15 minutes, also later. "
                "Or let them sign in with your provider (HANDRAISE_OIDC_ISSUER)."
            ),
            "/admin/people",
            gettext("See the people"),
        )
    ]


def _administrators(people: Sequence[Person]) -> list[Notice]:
    if sum(each.is_admin for each in people) != 1:
        return []
    return [
        Notice(
            "loud",
            gettext("There is only one administrator"),
            gettext("If they are ill or lose their sign-in, nobody can help. Make somebody else one too."),
            "/admin/people",
            gettext("See the people"),
        )
    ]


def _unchecked(people: Sequence[Person]) -> Notice:
    return Notice(
        "info",
        gettext("Not everything was checked: there are {count} or more people").format(
            count=grouped(len(people))
        ),
        gettext(
            "This page does not say whether a rule needs more people than there are, or whether there is only one administrator."
        ),
        "/admin/people",
        gettext("See the people"),
    )


async def _safety(ctx: ServerContext, admin: PersonCaller) -> list[Notice]:
    found = []
    if ctx.settings.is_exposed:
        found.append(
            Notice(
                "bad",
                gettext("People reach this server without encryption"),
                gettext(
                    "Keys and sessions can be read on the way. Put TLS in front of it, and set HANDRAISE_PUBLIC_URL to "
                    "its https address."
                ),
                "/admin/limits",
                gettext("See the settings"),
            )
        )
    if ctx.passkeys is not None and not await ctx.directory.passkeys(admin.workspace, admin.person.id):
        found.append(
            Notice(
                "info",
                gettext("You have no passkey"),
                gettext("With one you can decide what the policy lets only a passkey decide."),
                "/me#passkeys",
                gettext("Add a passkey"),
            )
        )
    if ctx.signer is None:
        found.append(
            Notice(
                "info",
                gettext("The audit trail is not signed"),
                gettext(
                    "It shows whether something was changed, but anybody who can write to the database could make it anew. "
                    "Set HANDRAISE_AUDIT_KEY on the server."
                ),
                "/admin/audit",
                gettext("See the audit trail"),
            )
        )
    return found


def _unused(keys: list[AgentKey]) -> list[Notice]:
    before = datetime.now(UTC) - _LONG_UNUSED
    number = sum((each.last_used_at or each.created_at) < before for each in keys)
    if not number:
        return []
    title = ngettext(
        "{count} key has not been used for 90 days",
        "{count} keys have not been used for 90 days",
        number,
    )
    return [
        Notice(
            "info",
            title.format(count=number),
            gettext("Revoke what nobody needs."),
            "/admin/keys",
            gettext("See the keys"),
        )
    ]


async def _keys(ctx: ServerContext, workspace: str) -> list[AgentKey]:
    found: list[AgentKey] = []
    while page := await ctx.directory.keys(workspace, after=found[-1].id if found else None, limit=_PAGE):
        found += page
        if len(page) < _PAGE or len(found) >= _MOST_READ:
            break
    return found
