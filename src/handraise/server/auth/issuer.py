"""Issue keys, links and sessions. Each secret is random, is shown once, and only its digest is stored."""

from __future__ import annotations

import secrets
from datetime import timedelta
from urllib.parse import quote

from handraise.model.errors import AlreadySettled
from handraise.model.identities import LinkPurpose, Person
from handraise.model.lookalike_names import misleading
from handraise.model.people import (
    ADMIN_PROGRAM,
    READER,
    SCIM,
    check_may_respond,
    key_prefix,
    reserved_for,
)
from handraise.model.questions import Question
from handraise.server.context import ServerContext
from handraise.wire.credentials import TokenKind, digest_of, make_token
from handraise.wire.records import KeyRecord, LinkRecord, NewKeyRecord, QuestionLinkRecord, SessionRecord


async def issue_key(ctx: ServerContext, workspace: str, agent: str, *, by: str) -> NewKeyRecord:
    """Issue a key for an agent; raises `ValueError` if the name is not valid."""
    if prefix := key_prefix(agent):
        raise ValueError(
            f"an agent's name must not begin with {prefix!r}: that is for programs that do not ask"
        )
    if why := reserved_for(agent):
        raise ValueError(f"{agent!r} is no agent: {why}")
    if why := misleading(agent):
        raise ValueError(f"an agent's name must not be taken for another one, but this one {why}")
    return await _issue_key(TokenKind.AGENT, ctx, workspace, agent, by)


async def issue_reader_key(ctx: ServerContext, workspace: str, reader: str, *, by: str) -> NewKeyRecord:
    """Issue a key for a program that reads settled questions; raises `ValueError` if the name is not valid."""
    return await _issue_key(TokenKind.READER, ctx, workspace, READER + reader, by)


async def issue_scim_key(ctx: ServerContext, workspace: str, program: str, *, by: str) -> NewKeyRecord:
    """Issue a key for a provider that provisions people over SCIM; raises `ValueError` if the name is not valid."""
    return await _issue_key(TokenKind.SCIM, ctx, workspace, SCIM + program, by)


async def issue_admin_token(ctx: ServerContext, workspace: str, name: str, *, by: str) -> NewKeyRecord:
    """Issue a key for a program that administers a workspace; raises `ValueError` if the name is not valid."""
    return await _issue_key(TokenKind.ADMIN, ctx, workspace, ADMIN_PROGRAM + name, by)


async def _issue_key(kind: TokenKind, ctx: ServerContext, workspace: str, name: str, by: str) -> NewKeyRecord:
    ctx.desk.scoped(workspace, asker=name)
    token = _new_token(kind, workspace)
    key = await ctx.directory.add_key(
        workspace, ctx.new_id(), digest=digest_of(token), agent=name, created_by=by
    )
    return NewKeyRecord(**KeyRecord.of(key).model_dump(), key=token)


async def issue_link(
    ctx: ServerContext,
    workspace: str,
    *,
    person: str,
    purpose: LinkPurpose,
    vouched_by: str | None,
    by: str | None = None,
) -> LinkRecord | None:
    """Issue a link with which a person signs in once; None if there is no such person.

    `vouched_by` is who makes it for somebody else. None is only right if the person certainly gets it themselves.
    """
    token = _new_token(TokenKind.LINK, workspace)
    link = await ctx.directory.add_link(
        workspace,
        ctx.new_id(),
        digest=digest_of(token),
        person=person,
        purpose=purpose,
        lasts=timedelta(hours=ctx.settings.link_hours),
        vouched_by=vouched_by,
        by=by or vouched_by,
    )
    if link is None:
        return None
    url = f"{ctx.settings.base_url}/sign-in/link?token={quote(token)}"
    return LinkRecord(url=url, expires_at=link.expires_at)


async def issue_question_link(
    ctx: ServerContext, question: Question, person: Person, *, channel: str, by: str, lasts: timedelta
) -> QuestionLinkRecord | None:
    """Issue a link with which a person answers one question; None if the person is gone.

    Raises `PermissionDenied` if they may not answer it, and `AlreadySettled`. Both are checked again with every use.
    """
    check_may_respond(question, person.responder)
    if question.outcome is not None:
        raise AlreadySettled(question.id, question.outcome)
    token = _new_token(TokenKind.QUESTION, question.workspace)
    link = await ctx.directory.add_question_link(
        question.workspace,
        ctx.new_id(),
        digest=digest_of(token),
        question_id=question.id,
        person=person.id,
        channel=channel,
        created_by=by,
        lasts=lasts,
    )
    if link is None:
        return None
    url = f"{ctx.settings.base_url}/q/{token}"
    return QuestionLinkRecord(url=url, person=link.person, expires_at=link.expires_at)


async def issue_session(
    ctx: ServerContext,
    workspace: str,
    *,
    person: str,
    how: str,
    vouched_by: str | None = None,
    provider_session: str | None = None,
    at_most: timedelta | None = None,
) -> SessionRecord | None:
    """Open a session for a person who has proved who they are; None if the person is gone or disabled.

    `vouched_by` is who made the sign-in link, if that was somebody else. `provider_session` is the session at the provider
    that it began with, and `at_most` is for how long the provider's word counts.
    """
    lasts = timedelta(days=ctx.settings.session_days)
    token = _new_token(TokenKind.SESSION, workspace)
    session = await ctx.directory.open_session(
        workspace,
        ctx.new_id(),
        digest=digest_of(token),
        person=person,
        how=how,
        lasts=lasts if at_most is None else min(lasts, at_most),
        vouched_by=vouched_by,
        provider_session=provider_session,
    )
    return None if session is None else SessionRecord(token=token, expires_at=session.expires_at)


def _new_token(kind: TokenKind, workspace: str) -> str:
    return make_token(kind, workspace, secrets.token_bytes(32))
