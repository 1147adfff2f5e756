"""Whether this server still waits for its first administrator."""

from __future__ import annotations

from handraise.desk.everybody import everybody
from handraise.model.identities import Person
from handraise.server.context import ServerContext


async def administrators(ctx: ServerContext, workspace: str) -> list[Person]:
    """All administrators of a workspace."""
    return [each async for each in everybody(ctx.directory, workspace) if each.is_admin]


async def awaits_setup(ctx: ServerContext) -> bool:
    """Whether no administrator has ever signed in, so that the link of the first one sets this server up.

    False also if somebody added administrators by hand: the person who did gives them a link. And if the settings say
    who they are: they sign in at their provider.
    """
    if ctx.is_set_up or ctx.settings.admin_emails:
        return False
    found = await administrators(ctx, ctx.settings.workspace)
    if any(each.signed_in_at for each in found):
        ctx.is_set_up = True
        return False
    return not found or ctx.settings.admin in {each.id for each in found}
