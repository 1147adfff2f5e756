"""Grants that an agent may use now, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from handraise.model.grants import Grant
from handraise.model.visible import visible_line
from handraise.presentation.names import person_name
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.name_links import agent_href, conversation_href, tool_href
from handraise.server.web.inbox.page_texts import When, when

_AT_ONCE = 200
_MOST_READ = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveGrant:
    """An approval that an agent may use again. Everything in it may be shown as it is."""

    id: str
    href: str
    asker: str
    asker_href: str
    tool: str
    tool_href: str
    conversation: str | None
    conversation_href: str | None
    by: str
    ends: When


async def active_grants(
    ctx: ServerContext,
    caller: PersonCaller,
    *,
    asker: str | None = None,
    tool: str | None = None,
    given_by: str | None = None,
) -> list[ActiveGrant]:
    """The active grants of this person; an administrator sees all of them. The others narrow them."""
    desk, now = desk_of(ctx, caller), datetime.now(UTC)
    found: list[ActiveGrant] = []
    after: str | None = None
    for _ in range(_MOST_READ // _AT_ONCE):
        grants = await desk.list_grants(after=after, limit=_AT_ONCE)
        found += (
            _active_grant(grant, caller.person.id, now)
            for grant in grants
            if grant.holds(now, grant.conversation)
            and (caller.is_admin or grant.granted_by == caller.person.id)
            and asker in (None, grant.asker)
            and tool in (None, grant.tool)
            and given_by in (None, grant.granted_by)
        )
        if (after := grants.next) is None:
            break
    return found


def _active_grant(grant: Grant, me: str, now: datetime) -> ActiveGrant:
    conversation = None if grant.scope == "always" else grant.conversation or ""
    return ActiveGrant(
        id=quote(grant.id, safe=""),
        href=f"/questions/{quote(grant.question_id, safe='')}",
        asker=visible_line(grant.asker),
        asker_href=agent_href(grant.asker),
        tool=visible_line(grant.tool),
        tool_href=tool_href(grant.tool),
        conversation=None if conversation is None else visible_line(conversation),
        conversation_href=None if conversation is None else conversation_href(conversation),
        by=person_name(grant.granted_by, viewer=me),
        ends=when(grant.expires_at, now),
    )
