"""The configuration of a workspace as a whole, its retention and its quotas. For administrators and their programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from handraise.config.config_apply import run_plan
from handraise.config.config_document import RetentionConfig, parse_config
from handraise.config.config_plan import plan_config
from handraise.config.config_state import config_of, read_state, retention_of
from handraise.desk.retention_admin import LONGEST_DAYS
from handraise.model.errors import InvalidRequest
from handraise.model.json_values import text_problem
from handraise.model.problems import Problem
from handraise.model.seals import Rule
from handraise.model.workspace_quotas import WorkspaceQuotas
from handraise.server.api.etags import (
    ConditionalRoute,
    IfMatch,
    check_match,
    check_tag,
    etag_of,
    tagged,
)
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentConfigurer
from handraise.server.config_setup import config_target
from handraise.server.context import ServerContext
from handraise.wire.config_records import (
    ConfigChangeRecord,
    ConfigRecord,
    ConfigResultRecord,
    PutRetention,
    RetentionRecord,
    StaffingRecord,
)

router = APIRouter(prefix="/v1", tags=["administration"], route_class=ConditionalRoute)

Document = Annotated[
    dict[str, Any], Body(description="the configuration; its JSON Schema is `office.schema.json`")
]
DryRun = Annotated[bool, Query(description="only return what would change")]
Prune = Annotated[bool, Query(description="remove what a part does not name; other parts stay")]


@router.get("/config", response_model=ConfigRecord)
async def get_config(ctx: Context, admin: CurrentConfigurer) -> Response:
    """Get the configuration of the workspace as one document. Secrets are left out, and putting it back keeps them."""
    state = await read_state(ctx, admin.workspace)
    record = ConfigRecord.model_validate(config_of(state).document())
    return reply(record, headers={"etag": etag_of(state.tag)})


@router.put("/config", response_model=ConfigResultRecord)
async def put_config(
    *,
    ctx: Context,
    admin: CurrentConfigurer,
    body: Document,
    dry_run: DryRun = False,
    prune: Prune = False,
    if_match: IfMatch = None,
) -> Response:
    """Make the workspace what a document says, and return what that changed; the same again changes nothing.

    Everything that is wrong is returned at once, before anything changes. Changes are made one after the other: if one fails,
    those before it stay, and sending the document again makes the rest. With `If-Match`, only if nothing has changed.
    """
    plan = await plan_config(
        config_target(ctx, admin.workspace, by=admin.by), parse_config(body), prune=prune
    )
    check_tag(if_match, etag_of(plan.tag))
    if not dry_run:
        await run_plan(plan)
    changes = tuple(ConfigChangeRecord(**asdict(each)) for each in plan.changes)
    warnings = tuple(map(StaffingRecord.of, plan.staffing))
    return reply(ConfigResultRecord(applied=not dry_run, changes=changes, warnings=warnings))


@router.get("/retention", response_model=RetentionRecord)
async def get_retention(ctx: Context, admin: CurrentConfigurer) -> Response:
    """Get how long the workspace keeps settled questions."""
    return tagged(retention_text(ctx, await ctx.ledger.rules(admin.workspace)))


@router.put("/retention", response_model=RetentionRecord)
async def put_retention(
    ctx: Context, admin: CurrentConfigurer, body: PutRetention, *, if_match: IfMatch = None
) -> Response:
    """Set how long the workspace keeps settled questions. What is older is removed soon after, unless there is a hold.

    With `If-Match`, only if it has not changed.
    """
    days = body.keep_settled_days
    if isinstance(days, float) and not 0 <= days <= LONGEST_DAYS:
        raise InvalidRequest([Problem("body.keep_settled_days", f"expected 0 to {LONGEST_DAYS} days")])
    rule = RetentionConfig(keep_settled_days=days).rule
    check_match(if_match, retention_text(ctx, await ctx.ledger.rules(admin.workspace)))
    await ctx.ledger.put_rule(admin.workspace, rule, by=admin.by)
    return tagged(retention_text(ctx, rule))


@router.get("/quotas", response_model=WorkspaceQuotas)
async def get_quotas(ctx: Context, admin: CurrentConfigurer) -> Response:
    """Get how many pending questions the agents of the workspace may have, if that differs from the server's setting."""
    return tagged((await ctx.policies.quotas(admin.workspace)).model_dump_json())


@router.put("/quotas", response_model=WorkspaceQuotas)
async def put_quotas(
    ctx: Context, admin: CurrentConfigurer, body: WorkspaceQuotas, *, if_match: IfMatch = None
) -> Response:
    """Replace the quotas of the workspace; with `If-Match`, only if they have not changed."""
    if problems := _name_problems(body):
        raise InvalidRequest(problems)
    await ctx.policies.put_quotas(
        admin.workspace,
        body,
        by=admin.by,
        check=lambda stored: check_match(if_match, stored.model_dump_json()),
    )
    return tagged((await ctx.policies.quotas(admin.workspace)).model_dump_json())


def retention_text(ctx: ServerContext, rule: Rule | None) -> str:
    """The rule of a workspace as responses show it; the tag of its version is made from it."""
    days = retention_of(rule).keep_settled_days
    default = ctx.settings.keep_settled_days
    return RetentionRecord(keep_settled_days=days, default_days=default).model_dump_json()


def _name_problems(quotas: WorkspaceQuotas) -> list[Problem]:
    """What is wrong with the names of agents."""
    return [Problem(f"body.agents.{name}", why) for name in quotas.agents if (why := text_problem(name))]
