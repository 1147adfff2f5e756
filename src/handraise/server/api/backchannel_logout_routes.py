"""OpenID Connect Back-Channel Logout: the provider says that a session or a person has signed out there."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import JSONResponse, Response

from handraise.server.auth.authenticator import Context, count_refusal
from handraise.server.auth.oidc import BEGIN, LogoutRefused, LogoutToken, Provider, ProviderUnavailable
from handraise.server.context import ServerContext

_log = logging.getLogger(__name__)

router = APIRouter(include_in_schema=False)

PATH = BEGIN + "/backchannel-logout"
ACTOR = "OIDC provider"
"""Who ends the sessions, in the audit trail. A person of this name has no space before it in any other event."""
_CLAIMANT = "oidc logout"
_PATIENCE = timedelta(seconds=10)
_UNSEEN = ("new", "again")


@router.post(PATH)
async def log_out(request: Request, ctx: Context, logout_token: Annotated[str, Form()] = "") -> Response:
    """End the sessions that a logout token names, on every server. A token works once."""
    provider: Provider = request.app.state.oidc
    try:
        token = await provider.verify_logout(logout_token)
        ended = await _end_once(ctx, token)
    except LogoutRefused as refusal:
        count_refusal(request, "oidc")
        _log.warning("%s", refusal, extra={"event": "oidc_logout_refused"})
        return _response(400, {"error": "invalid_request", "error_description": str(refusal)})
    except ProviderUnavailable:
        return _response(503, {"error": "temporarily_unavailable"})
    _log.info("the OIDC provider ended %d sessions", ended, extra={"event": "oidc_logout"})
    return _response(200, {})


async def _end_once(ctx: ServerContext, token: LogoutToken) -> int:
    """End the sessions; raises `LogoutRefused` if any server has done so for this token before."""
    directory, workspace = ctx.directory, ctx.settings.oidc_workspace
    claim = await directory.claim(
        workspace, _CLAIMANT, token.id, fingerprint=token.id, made="", patience=_PATIENCE
    )
    if claim.state not in _UNSEEN:
        raise LogoutRefused("the logout token is refused: it was used before (jti)")
    try:
        ended = await directory.end_provider_sessions(
            workspace, identity=token.identity, provider_session=token.provider_session, by=ACTOR
        )
    except BaseException:
        await directory.release(workspace, _CLAIMANT, token.id, turn=claim.turn)
        raise
    await directory.finish(workspace, _CLAIMANT, token.id, turn=claim.turn, status=200, body="")
    return ended


def _response(status: int, body: dict[str, str]) -> Response:
    return JSONResponse(body, status, headers={"cache-control": "no-store"})
