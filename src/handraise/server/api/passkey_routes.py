"""The passkeys of people, for administrators: look, and remove one that is lost. People add theirs in the inbox."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from handraise.model.errors import NotFound
from handraise.server.api.responses import reply
from handraise.server.auth.authenticator import Context, CurrentAdmin
from handraise.wire.passkey_records import PasskeyList, PasskeyRecord

router = APIRouter(prefix="/v1", tags=["people"])

PersonId = Annotated[str, Path(max_length=200)]
PasskeyId = Annotated[str, Path(max_length=2_000)]


@router.get("/people/{person_id}/passkeys", response_model=PasskeyList)
async def list_passkeys(ctx: Context, admin: CurrentAdmin, person_id: PersonId) -> Response:
    """List the passkeys of a person."""
    if await ctx.directory.find_person(admin.workspace, person_id) is None:
        raise NotFound("There is no such person here.")
    found = await ctx.directory.passkeys(admin.workspace, person_id)
    return reply(PasskeyList(passkeys=tuple(map(PasskeyRecord.of, found))))


@router.delete("/people/{person_id}/passkeys/{passkey_id}", status_code=204)
async def remove_passkey(
    ctx: Context, admin: CurrentAdmin, person_id: PersonId, passkey_id: PasskeyId
) -> Response:
    """Remove a passkey of a person, such as one that they have lost."""
    if not await ctx.directory.remove_passkey(
        admin.workspace, passkey_id, person=person_id, by=admin.person.id
    ):
        raise NotFound("This person has no such passkey.")
    return Response(status_code=204)
