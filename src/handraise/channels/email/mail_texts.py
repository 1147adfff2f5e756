"""What only an e-mail says: its subject, and what can be done with a reply to it."""

from __future__ import annotations

from typing import assert_never

from handraise.channels.message_texts import heading_of, how_to_reply, is_shown
from handraise.channels.typed_messages import how_to_write
from handraise.model.deliveries import Reason
from handraise.model.errors import MissingExtra
from handraise.model.forms import Approval, takes_files
from handraise.model.questions import Draft
from handraise.presentation.thread_text import too_long_to_approve
from handraise.presentation.translation import gettext

try:
    from handraise.presentation.markdown import one_line
except ImportError as error:
    raise MissingExtra("markdown-it-py", "email") from error

_LONGEST_SUBJECT = 60


def subject_of(question: Draft, reason: Reason) -> str:
    """Who asks for what, before anything that the agent wrote; one line."""
    subject = f"{heading_of(question)}: {one_line(question.prompt, _LONGEST_SUBJECT)}"
    if isinstance(question.form, Approval) and question.form.risk == "high":
        subject = gettext("High risk: {subject}").format(subject=subject)
    match reason:
        case "asked":
            return subject
        case "reminded":
            return gettext("Reminder: {subject}").format(subject=subject)
        case "escalated":
            return gettext("Escalated: {subject}").format(subject=subject)
        case "brought_in":
            return gettext("For you too: {subject}").format(subject=subject)
        case "noted":
            return gettext("Note: {subject}").format(subject=subject)
        case "replied":
            return gettext("Reply: {subject}").format(subject=subject)
        case _:
            assert_never(reason)


def only_on_the_page(question: Draft) -> str | None:
    """Why a question cannot be answered by a reply, or None if it can."""
    form = question.form
    if takes_files(form):
        return gettext("It is answered with a file, on its page, and not by a reply.")
    if not isinstance(form, Approval):
        return None
    if form.risk == "high":
        return gettext(
            "Because of the risk, this is decided on the page, after signing in, and not by a reply."
        )
    if not is_shown(form):
        return gettext(
            "The action is too long for an e-mail, so it is decided on the page and not by a reply."
        )
    return None


def on_replying(
    question: Draft, *, by_reply: bool, checked: bool, several: bool, shows_thread: bool = True
) -> str | None:
    """What a mail says about replies to it. `checked` says whether it is checked who they are from.

    `several` says whether others may answer, and `shows_thread` whether all that people and the agent have written is in it.
    """
    why = only_on_the_page(question)
    if why is None and isinstance(question.form, Approval) and not shows_thread:
        why = too_long_to_approve()
    if not by_reply:
        return why
    if why is None and isinstance(question.form, Approval) and not checked:
        why = gettext("Or deny with a reply to this e-mail: write “deny”, or “deny:” and the reason.")
    if why is None:
        why = gettext("Or reply to this e-mail: {how}").format(how=how_to_reply(question.form))
    return f"{why} {how_to_write(question, several=several)}"
