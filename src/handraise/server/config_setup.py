"""A workspace of this server, as a configuration is applied to it."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from handraise.config.config_target import ConfigTarget
from handraise.server.context import ServerContext
from handraise.server.rota_refresh import refresh_rota, rota_problem


def config_target(ctx: ServerContext, workspace: str, *, by: str, has_channels: bool = True) -> ConfigTarget:
    """The workspace with what this server knows. A command has no channels, so it cannot check addresses."""
    kept = ctx.settings.keep_settled_days
    return ConfigTarget(
        ports=ctx,
        workspace=workspace,
        by=by,
        channels=ctx.channels if has_channels else None,
        uses_email=ctx.settings.sends_mail,
        kept_by_default=None if kept is None else timedelta(days=kept),
        checks_recipients=ctx.settings.check_recipients,
        may_come=ctx.settings.may_join,
        rota_problem=partial(rota_problem, settings=ctx.settings),
        rota_changed=partial(_read_rota, ctx, workspace),
    )


async def _read_rota(ctx: ServerContext, workspace: str, group: str) -> None:
    """Find out at once who of a group is on duty."""
    calendars = await ctx.directory.calendars(workspace)
    await refresh_rota(ctx.directory, ctx.settings, calendars.groups[group], calendars)
