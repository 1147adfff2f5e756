"""Addresses of the pages of an agent, a tool, a conversation and a person. A name is only ever a quoted value of a query."""

from __future__ import annotations

from urllib.parse import urlencode

from handraise.model.forms import Approval
from handraise.model.identities import Person, Role
from handraise.model.questions import Question
from handraise.model.rulings import POLICY
from handraise.presentation.names import display_name


def agent_href(name: str) -> str:
    """The page of an agent."""
    return f"/agent?{urlencode({'name': name})}"


def tool_href(name: str) -> str:
    """The page of a tool."""
    return f"/tool?{urlencode({'name': name})}"


def conversation_href(name: str, **more: str) -> str:
    """The page of a conversation."""
    return f"/conversation?{urlencode({'name': name, **more})}"


def person_href(person_id: str) -> str:
    """The page of a person."""
    return f"/person?{urlencode({'name': person_id})}"


def tool_href_of(question: Question) -> str | None:
    """The page of the tool whose use a question asks about; None if it is no approval."""
    return tool_href(question.form.action.tool) if isinstance(question.form, Approval) else None


def conversation_href_of(question: Question) -> str | None:
    """The page of the conversation of a question; None if it has none."""
    return None if question.conversation is None else conversation_href(question.conversation)


def answerer_link(question: Question, viewer: Person) -> tuple[str, str] | None:
    """The name and the page of the person who settled a question; None if this person may not see that page."""
    by = getattr(question.outcome, "by", None)
    if by is None or by == question.asker or by.startswith(POLICY):
        return None
    may_look = viewer.role is Role.ADMIN or viewer.id == by
    return (display_name(by), person_href(by)) if may_look else None
