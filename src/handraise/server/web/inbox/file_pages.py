"""The files of a question for a browser: as downloads, and images as we have encoded them ourselves."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.attachments import DIGEST
from handraise.model.errors import AttachmentNotFound, QuestionNotFound
from handraise.presentation.translation import gettext
from handraise.server.api.file_routes import FILE_POLICY, file_response
from handraise.server.api.question_routes import desk_of, visible
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.image_encoder import ImageEncoder, image_type
from handraise.server.web.pages import PageRoute, message

pages = APIRouter(route_class=PageRoute, include_in_schema=False)


@pages.get("/questions/{question_id}/files/{digest}")
async def download(ctx: Context, caller: CurrentPerson, question_id: str, digest: str) -> Response:
    """Download a file, exactly as it was uploaded."""
    try:
        question = await visible(ctx, caller, question_id)
        if not DIGEST.fullmatch(digest):
            return _no_such_file()
        return await file_response(ctx, caller, question, digest)
    except (QuestionNotFound, AttachmentNotFound):
        return _no_such_file()


@pages.get("/questions/{question_id}/images/{digest}")
async def show_image(
    request: Request, ctx: Context, caller: CurrentPerson, question_id: str, digest: str
) -> Response:
    """Show an image. These are not the bytes that were uploaded, but its pixels, encoded again."""
    encoder: ImageEncoder = request.app.state.image_encoder
    try:
        question = await visible(ctx, caller, question_id)
        if not DIGEST.fullmatch(digest):
            return _no_such_file()
        file = await desk_of(ctx, caller).find_attachment(question, digest)
        if not encoder.shows(file):
            return _no_such_file()
        if (encoded := encoder.find_kept(digest)) is None:
            data = await desk_of(ctx, caller).read_attachment(question.id, digest)
            encoded = await encoder.encode(digest, data)
    except (QuestionNotFound, AttachmentNotFound):
        return _no_such_file()
    if encoded is None:
        return _no_such_file()
    headers = {
        "content-disposition": "inline",
        "content-security-policy": FILE_POLICY,
        "x-content-type-options": "nosniff",
        # The address has the digest, so what it shows never changes. Only this person's browser keeps it.
        "cache-control": "private, max-age=3600, immutable",
    }
    return Response(encoded, media_type=image_type(encoded), headers=headers)


def _no_such_file() -> Response:
    """The same page for a file of others, one that does not exist, and an image that cannot be shown."""
    return message(
        gettext("There is no such file here"),
        gettext("It may belong to a question for other people, or it was removed."),
        status=404,
        lead=("/", gettext("Back to what waits")),
    )
