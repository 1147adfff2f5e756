"""What only an e-mail says: its subject, and what can be done with a reply to it."""

from __future__ import annotations

from handraise.channels.message_texts import heading_of, how_to_reply, is_shown
from handraise.model.deliveries import Reason
from handraise.model.errors import MissingExtra
from handraise.model.forms import Approval
from handraise.model.questions import Draft

try:
    from handraise.presentation.markdown import one_line
except ImportError as error:
    raise MissingExtra("markdown-it-py", "email") from error

_LONGEST_SUBJECT = 60


def subject_of(question: Draft, reason: Reason) -> str:
    """Who asks for what, before anything that the agent wrote; one line."""
    why = {"asked": "", "reminded": "Reminder: ", "escalated": "Escalated: "}[reason]
    risk = "High risk: " if isinstance(question.form, Approval) and question.form.risk == "high" else ""
    first = one_line(question.prompt, _LONGEST_SUBJECT)
    return f"{why}{risk}{heading_of(question)}: {first}"


def only_on_the_page(question: Draft) -> str | None:
    """Why a question cannot be answered by a reply, or None where it can."""
    form = question.form
    if not isinstance(form, Approval):
        return None
    if form.risk == "high":
        return "Because of the risk, this is decided on the page, after signing in, and not by a reply."
    if not is_shown(form):
        return "The action is too long for an e-mail, so it is decided on the page and not by a reply."
    return None


def on_replying(question: Draft, *, by_reply: bool, checked: bool) -> str | None:
    """What a mail says about replies to it. `checked` says whether anybody finds out who they are from."""
    if (why := only_on_the_page(question)) is not None or not by_reply:
        return why
    if isinstance(question.form, Approval) and not checked:
        return "Or deny with a reply to this e-mail: write “deny”, or “deny:” and the reason."
    return f"Or reply to this e-mail: {how_to_reply(question.form)}"
