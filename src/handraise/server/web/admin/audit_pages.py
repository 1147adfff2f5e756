"""The audit trail in the browser: who changed what, with a search; verify it and download it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from handraise.desk.audit_export import export_lines
from handraise.desk.sealer import BrokenChain
from handraise.model.audit_verification import TrustedKey, Verdict, verify
from handraise.model.errors import MissingExtra
from handraise.model.json_values import Json, text_problem
from handraise.model.passkey_signatures import CheckProof
from handraise.model.visible import visible_line
from handraise.model.workspace_events import WorkspaceEvent, WorkspaceEventKind
from handraise.ports import WorkspaceEventSearch
from handraise.presentation.names import person_name
from handraise.presentation.translation import current_locale, find_time_zone, gettext, gettext_noop, grouped
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import admin_page
from handraise.server.web.inbox.page_texts import when
from handraise.server.web.pages import PageRoute

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/audit"
_PER_PAGE = 50
_LONGEST_VALUE = 300
_KINDS: dict[WorkspaceEventKind, str] = {
    WorkspaceEventKind.PERSON_ADDED: gettext_noop("Person added"),
    WorkspaceEventKind.PERSON_CHANGED: gettext_noop("Person changed"),
    WorkspaceEventKind.PERSON_REMOVED: gettext_noop("Person removed"),
    WorkspaceEventKind.PERSON_DISABLED: gettext_noop("Person disabled"),
    WorkspaceEventKind.PERSON_ENABLED: gettext_noop("Person enabled"),
    WorkspaceEventKind.PERSON_AWAY: gettext_noop("Person away"),
    WorkspaceEventKind.PERSON_BACK: gettext_noop("Person back"),
    WorkspaceEventKind.PERSON_ERASED: gettext_noop("Person erased"),
    WorkspaceEventKind.GROUP_CHANGED: gettext_noop("Group changed"),
    WorkspaceEventKind.HOURS_CHANGED: gettext_noop("Working hours changed"),
    WorkspaceEventKind.ROTA_CHANGED: gettext_noop("Rota changed"),
    WorkspaceEventKind.KEY_CREATED: gettext_noop("Key created"),
    WorkspaceEventKind.KEY_REVOKED: gettext_noop("Key revoked"),
    WorkspaceEventKind.ADDRESS_ADDED: gettext_noop("Address added"),
    WorkspaceEventKind.ADDRESS_CHANGED: gettext_noop("Address changed"),
    WorkspaceEventKind.ADDRESS_REMOVED: gettext_noop("Address removed"),
    WorkspaceEventKind.ROUTING_CHANGED: gettext_noop("Routing changed"),
    WorkspaceEventKind.DELIVERY_RETRIED: gettext_noop("Delivery tried again"),
    WorkspaceEventKind.LINK_CREATED: gettext_noop("Sign-in link made"),
    WorkspaceEventKind.LINK_USED: gettext_noop("Sign-in link used"),
    WorkspaceEventKind.SESSION_OPENED: gettext_noop("Signed in"),
    WorkspaceEventKind.SESSION_ENDED: gettext_noop("Signed out"),
    WorkspaceEventKind.PASSKEY_ADDED: gettext_noop("Passkey added"),
    WorkspaceEventKind.PASSKEY_REMOVED: gettext_noop("Passkey removed"),
    WorkspaceEventKind.POLICY_CHANGED: gettext_noop("Policy changed"),
    WorkspaceEventKind.SUSPENSION_LIFTED: gettext_noop("Rule resumed"),
    WorkspaceEventKind.STOP_BEGUN: gettext_noop("Stop begun"),
    WorkspaceEventKind.STOP_ENDED: gettext_noop("Stop ended"),
    WorkspaceEventKind.RETENTION_CHANGED: gettext_noop("Retention changed"),
    WorkspaceEventKind.QUOTAS_CHANGED: gettext_noop("Quotas changed"),
    WorkspaceEventKind.HOLD_PLACED: gettext_noop("Hold placed"),
    WorkspaceEventKind.HOLD_LIFTED: gettext_noop("Hold lifted"),
}

Text = Annotated[str, Query(max_length=200)]


@pages.get(PATH)
async def show_trail(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    person: Text = "",
    kind: Text = "",
    since: Annotated[str, Query(max_length=10)] = "",
    until: Annotated[str, Query(max_length=10)] = "",
    before: Text = "",
) -> Response:
    """Show what changed in the workspace and who changed it, the newest first."""
    return await _page(ctx, admin, person=person, kind=kind, since=since, until=until, before=before)


@pages.post(PATH + "/verify")
async def verify_here(ctx: Context, admin: CurrentAdmin) -> Response:
    """Check the whole trail of this workspace, as `handraise audit verify` does with an export."""
    async with ctx.replaying:  # one expensive thing at a time
        verdict = await _verdict(ctx, admin.workspace)
    return await _page(ctx, admin, verdict=verdict)


@pages.post(PATH + "/export")
async def export_here(ctx: Context, admin: CurrentAdmin) -> Response:
    """Download the whole trail as JSON lines, as `handraise audit export` writes it."""
    lines = await _started(_lines(ctx, admin.workspace))
    name = f"handraise-audit-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl"
    return StreamingResponse(
        lines,
        media_type="application/jsonl",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


async def _lines(ctx: ServerContext, workspace: str) -> AsyncIterator[str]:
    """Seal what is not sealed yet, then every line of the export; raises `BrokenChain`."""
    await ctx.sealer().seal(workspace)
    known = None if ctx.signed_heads is None else await ctx.signed_heads.find(workspace)
    async for line in export_lines(ctx.store, ctx.ledger, workspace, ctx.signer, known):
        yield line


async def _started(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """The same lines, of which the first is read now: what goes wrong at the beginning is an error page."""
    first = await anext(lines, "")

    async def rest() -> AsyncIterator[str]:
        yield first
        async for line in lines:
            yield line

    return rest()


async def _verdict(ctx: ServerContext, workspace: str) -> Verdict | str:
    """What verifying says, or in words why the trail cannot be exported."""
    with TemporaryDirectory(prefix="handraise-audit-") as folder:
        file = Path(folder) / "trail.jsonl"
        try:
            with file.open("w", encoding="utf-8") as out:
                async for line in _lines(ctx, workspace):
                    out.write(line)
        except BrokenChain as broken:
            return visible_line(str(broken))

        def read() -> Iterator[str]:
            with file.open(encoding="utf-8") as lines:
                yield from lines

        keys = _keys(ctx)
        return await asyncio.to_thread(
            verify, read, keys=keys, unsigned=not keys, check_passkey=_passkey_check()
        )


def _keys(ctx: ServerContext) -> list[TrustedKey]:
    """The public key of this server, if it signs."""
    path = ctx.settings.audit_key
    if ctx.signer is None or path is None or not (public := Path(f"{path}.pub")).exists():
        return []
    from handraise.signing.key_files import trusted_key  # noqa: PLC0415 -- cryptography is an extra

    return [trusted_key(public)]


def _passkey_check() -> CheckProof | None:
    try:
        from handraise.server.passkeys.ceremony import find_fault  # noqa: PLC0415 -- webauthn is an extra
    except MissingExtra:
        return None
    return find_fault


async def _page(
    ctx: ServerContext,
    admin: PersonCaller,
    *,
    verdict: Verdict | str | None = None,
    before: str = "",
    **typed: str,
) -> Response:
    typed = {name: typed.get(name, "").strip() for name in ("person", "kind", "since", "until")}
    problems = {
        name: gettext("Write a day like 2026-11-18.")
        for name in ("since", "until")
        if typed[name] and _first_moment(typed[name], later=name == "until") is None
    }
    search = WorkspaceEventSearch(
        person=typed["person"] or None,
        kind=typed["kind"] or None,
        since=_first_moment(typed["since"]),
        until=_first_moment(typed["until"], later=True),
    )
    found: list[WorkspaceEvent] = []
    if not any(map(text_problem, (*typed.values(), before))):
        try:
            found = [
                *await ctx.store.search_workspace_events(
                    admin.workspace, search, before=before or None, limit=_PER_PAGE + 1
                )
            ]
        except ValueError:  # a cursor that is none of ours
            found = []
    now, shown = datetime.now(UTC), found[:_PER_PAGE]
    kept = {name: text for name, text in typed.items() if text}
    return admin_page(
        "audit",
        admin,
        "audit",
        typed=typed,
        problems=problems,
        status=422 if problems else 200,
        kinds=[("", gettext("Everything")), *((each.value, gettext(text)) for each, text in _KINDS.items())],
        events=[
            {
                "kind": gettext(_KINDS[each.kind]),
                "by": person_name(each.by, viewer=admin.person.id) if each.by else "–",
                "at": when(each.at, now),
                "details": _details(each),
            }
            for each in shown
        ],
        is_filtered=bool(kept),
        is_first=not before,
        first=f"{PATH}?{urlencode(kept)}",
        next=f"{PATH}?{urlencode({**kept, 'before': shown[-1].cursor})}" if len(found) > _PER_PAGE else None,
        is_signed=ctx.signer is not None,
        witnesses=len(ctx.settings.audit_witnesses),
        verdict=None if verdict is None else _verdict_view(verdict),
    )


def _first_moment(day: str, *, later: bool = False) -> datetime | None:
    """When a day, or the one after it, begins for the person who reads; None if it is no day, or the last of all days."""
    try:
        zone = find_time_zone(current_locale().time_zone) or UTC
        first = date.fromisoformat(day) + timedelta(days=later)
        return datetime.combine(first, time(), tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _details(event: WorkspaceEvent) -> list[tuple[str, str]]:
    """What an event says, line by line, without what is empty."""
    found = dict(event.details)
    changes = found.pop("changes", None)
    if isinstance(changes, dict):
        found |= changes
    if found.keys() >= {"from", "to"} and event.kind is not WorkspaceEventKind.PERSON_AWAY:
        found["now"] = {"from": found.pop("from"), "to": found.pop("to")}
    return [
        (visible_line(name), _short(value))
        for name, value in found.items()
        if value not in (None, [], {}) and name != "public_key"
    ]


def _short(value: Json) -> str:
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        before, after = (None if each is None else _short(each) for each in (value["from"], value["to"]))
        return f"{before or '–'} → {after or '–'}" if before else after or "–"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = ", ".join(value)
    if isinstance(value, dict) and not any(isinstance(each, dict | list) for each in value.values()):
        value = ", ".join(str(each) for each in value.values() if each is not None)
    text = visible_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _verdict_view(verdict: Verdict | str) -> dict[str, Any]:
    if isinstance(verdict, str):
        return {"is_good": False, "fault": verdict, "facts": []}
    if verdict.fault is not None:
        return {"is_good": False, "fault": visible_line(str(verdict.fault)), "facts": []}
    signed = ", ".join(verdict.keys) or gettext(
        "nobody: anybody who can write to the database could have made it"
    )
    return {
        "is_good": True,
        "fault": "",
        "facts": [
            (gettext("Seals"), gettext("{first} to {last}").format(first=verdict.first, last=verdict.last)),
            (
                gettext("Events"),
                gettext("{count}, besides {erased} erased and {removed} removed by retention").format(
                    count=grouped(verdict.events),
                    erased=grouped(verdict.erased),
                    removed=grouped(verdict.removed),
                ),
            ),
            (gettext("Questions"), grouped(verdict.questions)),
            (gettext("Signed by"), visible_line(signed)),
            (gettext("Head"), f"{verdict.last}:{verdict.head.hex()}"),
        ],
    }
