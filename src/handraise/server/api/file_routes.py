"""Files over HTTP: agents and people upload them, and those who may see a question download its files."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from handraise.model.attachments import UNKNOWN_TYPE
from handraise.model.drafting import Limits
from handraise.model.errors import InvalidAttachment, Unauthenticated
from handraise.model.questions import Question
from handraise.ports.attached_file import check_description
from handraise.server.api.question_routes import desk_of, visible
from handraise.server.api.responses import QuestionId, reply
from handraise.server.auth.authenticator import AgentCaller, Caller, Context, CurrentCaller, still_authorized
from handraise.server.context import ServerContext
from handraise.server.uploads import UploadSlots, read_upload
from handraise.wire.records import AttachmentRecord

router = APIRouter(prefix="/v1", tags=["files"])

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="the SHA-256 of its bytes")]

FILE_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The policy of everything that somebody uploaded: nothing in it is executed, loaded or framed."""
_BODY = {
    "requestBody": {
        "required": True,
        "content": {UNKNOWN_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    }
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {UNKNOWN_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
}


@router.post("/files", status_code=201, response_model=AttachmentRecord, openapi_extra=_BODY)
async def upload_file(
    request: Request,
    ctx: Context,
    caller: CurrentCaller,
    name: Annotated[str, Query(description="the name of the file, without a folder")],
    media_type: Annotated[str | None, Query(description="its media type; guessed if left out")] = None,
) -> Response:
    """Upload a file. Only you can attach it to a question or a reply, or answer with it. It is removed after a day if unused."""
    if problems := check_description(name, media_type):
        raise InvalidAttachment(problems)
    slots: UploadSlots = request.app.state.upload_slots
    with slots.hold(f"{caller.workspace}\n{caller.name}"):
        data = await read_upload(
            request.stream(), most_bytes=Limits().file_bytes, declared=request.headers.get("content-length")
        )
        if not await still_authorized(request):
            raise Unauthenticated("This key or session has ended meanwhile.")
        by = None if isinstance(caller, AgentCaller) else caller.person.responder
        file = await desk_of(ctx, caller).attach(data, name=name, media_type=media_type, by=by)
    return reply(AttachmentRecord(**file.record()), status=201)


@router.get("/questions/{question_id}/files/{digest}", response_class=Response, responses=_BYTES)
async def download_file(
    ctx: Context, caller: CurrentCaller, question_id: QuestionId, digest: Digest
) -> Response:
    """Download a file of a question, of one of its messages, or of an answer, exactly as it was uploaded."""
    question = await visible(ctx, caller, question_id)
    return await file_response(ctx, caller, question, digest)


async def file_response(ctx: ServerContext, caller: Caller, question: Question, digest: str) -> Response:
    """A file as a download: no browser shows or executes what somebody uploaded."""
    file, data = await desk_of(ctx, caller).open_attachment(question, digest)
    plain = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in file.name
    )
    return Response(
        data,
        media_type=UNKNOWN_TYPE,
        headers={
            "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name, safe='')}",
            "content-security-policy": FILE_POLICY,
            "x-content-type-options": "nosniff",
        },
    )
