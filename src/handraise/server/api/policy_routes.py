"""The policy of a workspace: read it, replace it, and see its versions."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import zip_longest
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from starlette.responses import Response

from handraise.desk.past_questions import replay_history
from handraise.desk.policy_admin import (
    NO_POLICY,
    checked_document,
    get_version,
    put_policy,
    resume_rule,
)
from handraise.desk.rule_suspensions import suspended_rules
from handraise.model.durations import span_of
from handraise.model.errors import InvalidRequest, NotFound
from handraise.model.json_values import text_problem
from handraise.model.policy_versions import CurrentPolicy, PolicyVersion
from handraise.model.problems import Problem
from handraise.policies.decide import CompiledPolicy, compile_document
from handraise.policies.policy_replay import ReplayReport
from handraise.server.api.etags import ConditionalRoute, IfMatch, check_tag, etag_of
from handraise.server.api.responses import Limit, reply
from handraise.server.auth.authenticator import Context, CurrentAdmin, CurrentConfigurer
from handraise.server.context import ServerContext
from handraise.wire.policy_records import (
    PolicyRecord,
    PolicyVersionPage,
    PolicyVersionRecord,
    ReplayRecord,
    SuspendedRuleRecord,
)

router = APIRouter(prefix="/v1", tags=["policy"], route_class=ConditionalRoute)

MOST_REPLAYED = 50_000
"""How many questions one request replays at most."""
_MOST_VERSIONS = 2**31 - 2  # the next number must still fit into an integer of PostgreSQL

Document = Annotated[dict[str, Any], Body(description="the policy: `time_zone` and `rules`")]
VersionNumber = Annotated[int, Path(ge=1, le=_MOST_VERSIONS, description="the number of the version")]
RuleName = Annotated[str, Path(max_length=100, description="the name of the rule")]
Since = Annotated[str, Query(max_length=20, description="how far back: `30d`, `12h`", examples=["30d"])]
CheckRecipients = Annotated[bool, Query(description="whether to refuse unknown people and groups")]


@router.get("/policy", response_model=PolicyRecord)
async def get_policy(ctx: Context, admin: CurrentConfigurer) -> Response:
    """Get the policy of the workspace. Its `ETag` is its version, and which of its rules are suspended."""
    return _tagged(await ctx.policies.current(admin.workspace))


@router.put("/policy", response_model=PolicyRecord)
async def put_policy_document(
    *,
    ctx: Context,
    admin: CurrentConfigurer,
    body: Document,
    if_match: IfMatch = None,
    check_recipients: CheckRecipients = True,
) -> Response:
    """Replace the policy of the workspace; with `If-Match`, only if it has not changed.

    It applies to every question that is posted after the response, on every server.
    """
    document = await checked_document(
        body, workspace=admin.workspace, recipients=ctx.engine.recipients if check_recipients else None
    )
    expected = None
    if if_match is not None:
        read = await ctx.policies.current(admin.workspace)
        check_tag(if_match, policy_version_tag(read))
        expected = 0 if read is None else read.version.version
    await put_policy(ctx.policies, admin.workspace, document, by=admin.by, expected=expected)
    return _tagged(await ctx.policies.current(admin.workspace))


@router.get("/policy/versions", response_model=PolicyVersionPage)
async def list_policy_versions(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    after: Annotated[
        str | None, Query(pattern=r"^[1-9][0-9]{0,8}$", description="the `next` of the page before")
    ] = None,
    limit: Limit = 50,
) -> Response:
    """List the versions of the policy, the latest first, with who stored them and what they changed."""
    place = None if after is None else int(after)
    found = await ctx.policies.versions(admin.workspace, before=place, limit=limit + 1)
    items = [PolicyVersionRecord.of(each, before) for each, before in zip_longest(found[:limit], found[1:])]
    more = len(found) > limit
    return reply(PolicyVersionPage(items=tuple(items), next=str(items[-1].version) if more else None))


@router.get("/policy/versions/{version}", response_model=PolicyRecord)
async def get_policy_version(ctx: Context, admin: CurrentAdmin, version: VersionNumber) -> Response:
    """Get one version of the policy."""
    return reply(_record(await get_version(ctx.policies, admin.workspace, version)))


@router.post("/policy/test", response_model=ReplayRecord)
async def replay_policy(
    ctx: Context, admin: CurrentAdmin, body: Document, *, since: Since = "30d"
) -> Response:
    """Replay a policy over past questions, without storing it: what it would have decided, and what people did.

    It replays the latest 50,000 questions at most; `handraise policy test` replays all of them.
    """
    policy = compile_document(body)
    return reply(ReplayRecord.of(await replayed(ctx, admin.workspace, policy, since_of(since))))


async def replayed(
    ctx: ServerContext, workspace: str, policy: CompiledPolicy, since: datetime
) -> ReplayReport:
    """The replay of a policy. A server does one at a time, because it takes a processor."""
    async with ctx.replaying:
        return await replay_history(ctx.store, workspace, policy, since=since, limit=MOST_REPLAYED)


def since_of(text: str) -> datetime:
    """The time that lies so far back."""
    try:
        span = span_of(text)
        return datetime.now(UTC) - span
    except (ValueError, OverflowError):
        raise InvalidRequest([Problem("query.since", "expected a span such as 30d or 12h")]) from None


@router.delete("/policy/suspensions/{rule}", status_code=204)
async def resume_policy_rule(ctx: Context, admin: CurrentAdmin, rule: RuleName) -> Response:
    """Let a rule that was suspended by a spot check allow questions again."""
    if text_problem(rule):
        raise NotFound("There is no such rule here.")
    await resume_rule(ctx.policies, admin.workspace, rule, by=admin.person.id)
    ctx.engine.policies.forget(admin.workspace)
    return Response(status_code=204)


def _record(version: PolicyVersion) -> PolicyRecord:
    return PolicyRecord(version=version.version, document=version.document, by=version.by, at=version.at)


def _tagged(current: CurrentPolicy | None) -> Response:
    record = PolicyRecord(version=0, document=NO_POLICY) if current is None else _record(current.version)
    suspended = [SuspendedRuleRecord.of(each.name, each.suspension) for each in suspended_rules(current)]
    record = record.model_copy(update={"suspended": tuple(suspended)})
    return reply(record, headers={"etag": policy_version_tag(current)})


def policy_version_tag(current: CurrentPolicy | None) -> str:
    """The ETag of a policy: its version, and which of its rules are suspended."""
    if current is None:
        return '"0"'
    suspended = sorted(f"{each.name} {each.suspension.question_id}" for each in suspended_rules(current))
    return (
        f'"{current.version.version}-{etag_of(str(suspended))[1:9]}"'
        if suspended
        else f'"{current.version.version}"'
    )
