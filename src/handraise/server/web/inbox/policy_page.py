"""The policy of a workspace: read it, try another one on the last 30 days, and apply it. For administrators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Path
from starlette.responses import RedirectResponse, Response

from handraise.desk.policy_admin import (
    NO_POLICY,
    checked_document,
    put_policy,
    resume_rule,
)
from handraise.desk.rule_suspensions import suspended_rules
from handraise.model.errors import InvalidPolicy, NotFound, PreconditionFailed
from handraise.model.evidence import check_may_administer
from handraise.model.json_values import text_problem
from handraise.model.policy_versions import PolicyVersion
from handraise.model.visible import visible_line
from handraise.policies.decide import compile_document
from handraise.policies.policy_file import read_document, write_document
from handraise.policies.policy_replay import PastQuestion, ReplayReport
from handraise.presentation.names import person_name
from handraise.presentation.ruling_text import effect_text, mode_text
from handraise.presentation.translation import gettext, gettext_noop, grouped
from handraise.server.api.policy_routes import MOST_REPLAYED, RuleName, replayed, since_of
from handraise.server.auth.authenticator import Context, CurrentPerson, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.inbox.page_texts import When, when
from handraise.server.web.pages import PageRoute, live_page, message
from handraise.wire.policy_records import changes_between

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_VERSIONS = 20
_LONGEST = 200_000
_REPLAYED = "30d"
_CHANGES = {
    "added": gettext_noop("{part} added"),
    "changed": gettext_noop("{part} changed"),
    "removed": gettext_noop("{part} removed"),
}

Text = Annotated[str, Form(max_length=_LONGEST)]
Version = Annotated[int, Form(ge=0, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version of the policy. Everything in it may be shown as it is."""

    number: int
    by: str
    at: When
    changes: str


@dataclass(frozen=True, slots=True)
class DifferentEnding:
    """A past question that would have ended differently. Everything in it may be shown as it is."""

    href: str
    agent: str
    tool: str
    prompt: str
    at: When
    by: str
    rule: str


@pages.get("/policy")
async def show_policy(ctx: Context, caller: CurrentPerson) -> Response:
    """Show the policy and its versions."""
    return _for_others() if not caller.is_admin else await _page(ctx, caller)


@pages.post("/policy/test")
async def try_policy(
    ctx: Context, caller: CurrentPerson, document: Text = "", version: Version = 0
) -> Response:
    """Try a policy on the last 30 days, and show what it would have done."""
    if not caller.is_admin:
        return _for_others()
    try:
        policy = compile_document(read_document(document))
    except InvalidPolicy as error:
        return await _page(ctx, caller, text=document, problems=error)
    report = await replayed(ctx, caller.workspace, policy, since_of(_REPLAYED))
    return await _page(ctx, caller, text=document, version=version, report=report)


@pages.post("/policy/apply")
async def apply_policy(
    ctx: Context, caller: CurrentPerson, document: Text = "", version: Version = 0
) -> Response:
    """Store a policy, if nobody has stored another one since this page was opened."""
    if not caller.is_admin:
        return _for_others()
    check_may_administer(caller.person.id, caller.session.evidence)
    try:
        checked = await checked_document(
            read_document(document), workspace=caller.workspace, recipients=ctx.engine.recipients
        )
        await put_policy(ctx.policies, caller.workspace, checked, by=caller.person.id, expected=version)
    except InvalidPolicy as error:
        return await _page(ctx, caller, text=document, problems=error)
    except PreconditionFailed:
        return await _page(ctx, caller, text=document, is_outdated=True)
    return RedirectResponse("/policy", 303)


@pages.post("/policy/suspensions/{rule}/resume")
async def resume_rule_here(
    ctx: Context, caller: CurrentPerson, rule: Annotated[RuleName, Path()]
) -> Response:
    """Let a suspended rule allow questions again."""
    if not caller.is_admin:
        return _for_others()
    check_may_administer(caller.person.id, caller.session.evidence)
    if text_problem(rule):
        raise NotFound("There is no such rule here.")
    await resume_rule(ctx.policies, caller.workspace, rule, by=caller.person.id)
    ctx.engine.policies.forget(caller.workspace)
    return RedirectResponse("/policy", 303)


def _for_others() -> Response:
    return message(
        gettext("This page is for administrators"),
        gettext("They decide here which questions need whom. What you may answer is in your inbox."),
        status=403,
        lead=("/", gettext("Back to what waits")),
    )


async def _page(
    ctx: ServerContext,
    caller: PersonCaller,
    *,
    text: str | None = None,
    version: int | None = None,
    problems: InvalidPolicy | None = None,
    report: ReplayReport | None = None,
    is_outdated: bool = False,
) -> Response:
    now = datetime.now(UTC)
    current = await ctx.policies.current(caller.workspace)
    found = await ctx.policies.versions(caller.workspace, before=None, limit=_VERSIONS + 1)
    latest = 0 if current is None else current.version.version
    stored = NO_POLICY if current is None else current.version.document
    return live_page(
        "inbox/policy.html",
        status=200 if problems is None and not is_outdated else 409 if is_outdated else 422,
        person=caller.person,
        latest=latest,
        version=latest if version is None else version,
        text=write_document(stored) if text is None else text,
        problems=[] if problems is None else [visible_line(str(each)) for each in problems.problems],
        is_outdated=is_outdated,
        suspended=[
            {
                "name": visible_line(each.name),
                "action": f"/policy/suspensions/{quote(each.name, safe='')}/resume",
                "by": person_name(each.suspension.by or ""),
                "at": when(each.suspension.at, now),
                "question": f"/questions/{quote(each.suspension.question_id, safe='')}",
            }
            for each in suspended_rules(current)
        ],
        versions=[_line(each, before, now) for each, before in zip_longest(found[:_VERSIONS], found[1:])],
        report=None if report is None else _report(report, now),
    )


def _line(version: PolicyVersion, before: PolicyVersion | None, now: datetime) -> VersionLine:
    changes = changes_between(None if before is None else before.document, version.document)
    told = [gettext(_CHANGES[each.change]).format(part=visible_line(each.part)) for each in changes]
    return VersionLine(
        version.version, visible_line(version.by or ""), when(version.at, now), ", ".join(told)
    )


def _report(report: ReplayReport, now: datetime) -> dict[str, Any]:
    """The figures of a replay for the page."""
    return {
        "questions": report.questions,
        "fewer": report.fewer,
        "allowed": report.allowed,
        "denied": report.denied,
        "checked": round(report.checked),
        "required": report.required,
        "denied_but_allowed": report.denied_but_allowed,
        "approved_but_denied": report.approved_but_denied,
        "lists": [
            (heading, [_different(each, now) for each in listed])
            for heading, listed in (
                (
                    gettext("People denied these, and the policy would allow them"),
                    report.denied_but_allowed_list,
                ),
                (
                    gettext("People approved these, and the policy would deny them"),
                    report.approved_but_denied_list,
                ),
            )
            if listed
        ],
        "elsewhere": [
            (visible_line(name), grouped(count)) for name, count in report.sent_elsewhere.most_common()
        ],
        "rules": [
            {
                "name": visible_line(each.name),
                "effect": effect_text(each.effect),
                "mode": mode_text(each.mode),
                "matches": grouped(each.matches),
                "failed": each.failed,
            }
            for each in report.rules.values()
        ],
        "truncated": grouped(MOST_REPLAYED) if report.truncated else None,
    }


def _different(past: PastQuestion, now: datetime) -> DifferentEnding:
    return DifferentEnding(
        href=f"/questions/{quote(past.id, safe='')}",
        agent=visible_line(past.agent),
        tool=visible_line(past.tool),
        prompt=visible_line(past.prompt)[:200],
        at=when(past.asked_at, now),
        by=person_name(past.decided_by),
        rule=visible_line(past.rule),
    )
