"""The page behind a question link: one question by itself, in a tab or in a frame of somebody else's page.

A GET changes nothing: the form answers by POST. The page needs no cookie. The page for frames has its own
address, so that nobody can put a page with an approval button into a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from handraise.model.evidence import SIGNED_LINK
from handraise.model.forms import Approval, takes_files
from handraise.model.questions import Question
from handraise.presentation.translation import gettext, gettext_noop
from handraise.server.auth.authenticator import Context, check_same_origin, context_of, count_refusal
from handraise.server.auth.question_links import LinkCaller, find_linked_question
from handraise.server.context import ServerContext
from handraise.server.middleware.security import framed_policy
from handraise.server.web.inbox.form_controls import Submitted
from handraise.server.web.inbox.page_texts import when
from handraise.server.web.inbox.question_html import AnswerContext, OtherPage, Submission, show
from handraise.server.web.inbox.question_page import respond, submitted_in
from handraise.server.web.pages import PageRoute, message, page

ELEMENT = "embed.js"
"""The only file that pages of other sites may load."""

_LAYOUT = "inbox/embedded.html"
_TITLE = gettext_noop("This link does not work any more")
_GONE = gettext_noop("It has expired, was ended, or is incomplete. Ask the sender for a new one.")
_OTHERS_MAY = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}


class LinkRoute(PageRoute):
    """A route whose address contains a secret, which must not get into any other request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler, so that no request names its address as the referrer."""
        handle = super().get_route_handler()

        async def handle_without_referrer(request: Request) -> Response:
            response = await handle(request)
            response.headers["referrer-policy"] = "strict-origin"
            return response

        return handle_without_referrer


class FrameRoute(LinkRoute):
    """A route whose pages may be shown in frames of the sites that the settings name."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the route's handler, so that every response has the policy for frames."""
        handle = super().get_route_handler()

        async def framed(request: Request) -> Response:
            response = await handle(request)
            origins = context_of(request).settings.embed_origins
            response.headers["content-security-policy"] = framed_policy(origins)
            return response

        return framed


pages = APIRouter(route_class=LinkRoute, include_in_schema=False)
frames = APIRouter(route_class=FrameRoute, include_in_schema=False)


@pages.get("/q/{token}")
async def show_linked(request: Request, ctx: Context, token: str) -> Response:
    """Show the question of a link. The address may fill in the form, but only the person sends it."""
    found = await find_linked_question(request, ctx, token)
    if found is None:
        return _gone(request)
    caller, question = found
    return await show(_alone(ctx, caller, question, token), question, _prefilled(request, question))


@pages.post("/q/{token}")
async def answer_linked(request: Request, ctx: Context, token: str) -> Response:
    """Answer or decline the question of a link, then redirect to it."""
    check_same_origin(request)
    submitted = await submitted_in(request)
    found = await find_linked_question(request, ctx, token)
    if found is None:
        return _gone(request)
    caller, question = found
    return await _respond(_alone(ctx, caller, question, token), question, submitted)


@pages.get("/q/{token}/status")
async def show_status(request: Request, ctx: Context, token: str) -> Response:
    """The status of the question of a link and how many messages it has, for a frame that is open."""
    found = await find_linked_question(request, ctx, token)
    if found is None:
        return _gone(request)
    _, question = found
    return JSONResponse({"status": question.status, "thread": question.thread})


@frames.get("/q/{token}/frame")
async def show_framed(request: Request, ctx: Context, token: str) -> Response:
    """Show the question of a link in a frame."""
    found = await find_linked_question(request, ctx, token)
    if found is None:
        return _gone_in_frame(request)
    caller, question = found
    return await show(_framed(ctx, caller, question, token), question)


@frames.post("/q/{token}/frame")
async def answer_framed(request: Request, ctx: Context, token: str) -> Response:
    """Answer or decline the question of a link in a frame, unless that needs its own tab."""
    check_same_origin(request)
    submitted = await submitted_in(request)
    found = await find_linked_question(request, ctx, token)
    if found is None:
        return _gone_in_frame(request)
    caller, question = found
    return await _respond(_framed(ctx, caller, question, token), question, submitted)


class SharedFiles(StaticFiles):
    """The files that are the same for everybody; pages of other sites may load one of them."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The response with a file."""
        response = await super().get_response(path, scope)
        if path == ELEMENT:
            response.headers.update(_OTHERS_MAY)
        return response


def _alone(ctx: ServerContext, caller: LinkCaller, question: Question, token: str) -> AnswerContext:
    return _answer_context(ctx, caller, f"/q/{token}", framed=False, other_page=_signed_in(question))


def _framed(ctx: ServerContext, caller: LinkCaller, question: Question, token: str) -> AnswerContext:
    """The context of a frame. The page around it could trick a person into a click, so nothing is approved there."""
    approves = isinstance(question.form, Approval) and not ctx.settings.embed_approvals
    in_a_tab = OtherPage(
        f"/q/{token}",
        gettext("Open in a new tab to decide"),
        gettext("This is shown inside another site's page, where nothing can be approved."),
    )
    other_page = _signed_in(question) or (in_a_tab if approves else None)
    return _answer_context(ctx, caller, f"/q/{token}/frame", framed=True, other_page=other_page)


def _signed_in(question: Question) -> OtherPage | None:
    """Where to decide an action of high risk: a link may have been passed on, but a session belongs to one person."""
    if takes_files(question.form):
        return OtherPage(
            f"/questions/{quote(question.id, safe='')}",
            gettext("Sign in to answer"),
            gettext("It is answered with a file, which somebody uploads who is signed in."),
        )
    if isinstance(question.form, Approval) and question.form.risk == "high":
        return OtherPage(
            f"/questions/{quote(question.id, safe='')}",
            gettext("Sign in to decide"),
            gettext(
                "An action of high risk is decided by somebody who is signed in. A link alone is not enough for it."
            ),
        )
    return None


def _answer_context(
    ctx: ServerContext, caller: LinkCaller, here: str, *, framed: bool, other_page: OtherPage | None
) -> AnswerContext:
    link = caller.link
    return AnswerContext(
        desk=ctx.desk.scoped(caller.workspace),
        person=caller.person,
        here=here,
        directory=ctx.directory,
        policies=ctx.policies,
        channel=link.channel,
        evidence=SIGNED_LINK,
        details={"link": link.id, "link_made_by": link.created_by},
        other_page=other_page,
        layout=_LAYOUT,
        shown={"framed": framed, "until": when(link.expires_at, datetime.now(UTC))},
    )


async def _respond(context: AnswerContext, question: Question, submitted: Submitted) -> Response:
    """Process a submission, unless it must be sent from another page."""
    if context.other_page and question.outcome is None:
        return await show(context, question, status=403)
    return await respond(context, question, submitted)


def _prefilled(request: Request, question: Question) -> Submission | None:
    """What the address fills in, as a button in an e-mail does; nothing if it is an approval."""
    if isinstance(question.form, Approval) or question.outcome is not None:
        return None
    given: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        given.setdefault(name, []).append(value)
    filled = {name: values for name, values in given.items() if name.startswith("v")}
    return Submission(filled) if filled else None


def _gone(request: Request) -> Response:
    """The same page for a link that has ended, no longer belongs to its person, or never existed: 410."""
    count_refusal(request, "question_link")
    return message(gettext(_TITLE), gettext(_GONE), status=410)


def _gone_in_frame(request: Request) -> Response:
    count_refusal(request, "question_link")
    return page(
        "inbox/embedded_gone.html",
        status=410,
        title=gettext(_TITLE),
        text=gettext(_GONE),
        framed=True,
        person=None,
    )
