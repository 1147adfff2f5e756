"""Links to one question. With a link, one person sees one question and answers it, and nothing else.

It is no session and no key. Whether the person may answer is checked again with every use.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from handraise.model.errors import QuestionNotFound
from handraise.model.identities import Person, QuestionLink
from handraise.model.people import may_see
from handraise.model.questions import Question
from handraise.presentation.translation import set_locale
from handraise.server.context import ServerContext
from handraise.server.page_locale import page_locale
from handraise.wire.credentials import TokenKind, read_token


@dataclass(frozen=True, slots=True)
class LinkCaller:
    """A person with a question link. Routes for a person or an agent do not accept it."""

    workspace: str
    person: Person
    link: QuestionLink

    @property
    def name(self) -> str:
        """Who this is, in logs."""
        return f"link:{self.person.id}"


async def find_linked_question(
    request: Request, ctx: ServerContext, text: str
) -> tuple[LinkCaller, Question] | None:
    """Find the caller and the question of a link's token; None if it is not valid."""
    token = read_token(text)
    if token is None or token.kind is not TokenKind.QUESTION:
        return None
    found = await ctx.directory.find_question_link(token.workspace, token.digest)
    if found is None:
        return None
    link, person = found
    request.app.state.rate_limits.count_request(token.workspace, link.id)
    try:
        question = await ctx.desk.scoped(token.workspace).get(link.question_id)
    except QuestionNotFound:
        return None
    if not may_see(question, person.responder):
        return None
    caller = LinkCaller(token.workspace, person, link)
    request.state.caller = caller
    set_locale(page_locale(request, person))
    return caller, question
