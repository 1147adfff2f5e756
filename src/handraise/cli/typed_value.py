"""Which questions wait for a person, and the values of what they type."""

from __future__ import annotations

from handraise.cli.ask_commands import json_or_text
from handraise.cli.session import CliSession
from handraise.model.errors import InvalidAnswer
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.typed_replies import NotAnAnswer, read_reply
from handraise.model.validation import check_answer

_MOST_LISTED = 1_000


async def pending_for(
    session: CliSession, *, everything: bool = False, aside: bool = False
) -> list[Question]:
    """The questions that this person may answer, or that this agent has asked; or all that they may see.

    `aside` is for those that this person has set aside.
    """
    found: list[Question] = []
    after: str | None = None
    recipient = session.me if session.may_answer and not everything else None
    while len(found) < _MOST_LISTED:
        page = await session.desk.list_pending(recipient=recipient, order="urgency", after=after, aside=aside)
        found += page.items
        after = page.next
        if after is None:
            break
    return found


def value_of(question: Question, text: str) -> Json:
    """The value of a typed text: a reply as in a chat, else JSON, else the text itself."""
    read = read_reply(question, text)
    if not isinstance(read, NotAnAnswer):
        return read.value
    meant = json_or_text(text)
    try:
        return check_answer(question.form, meant)
    except InvalidAnswer:
        return text if isinstance(meant, str) or not isinstance(meant, (dict, list)) else meant
