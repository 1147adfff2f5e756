"""Which questions wait for a person, and the values of what they type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeGuard

from handraise.cli.ask_commands import json_or_text
from handraise.cli.exit_codes import CommandError
from handraise.cli.session import CliSession
from handraise.cli.terminal_texts import shown
from handraise.model.errors import InvalidAnswer
from handraise.model.forms import AnyForm, Approval, Choice, MultiChoice, SimpleForm
from handraise.model.json_values import Json
from handraise.model.questions import Question
from handraise.model.typed_replies import NotAnAnswer, read_reply
from handraise.model.validation import check_answer
from handraise.presentation.form_parts import parts_of
from handraise.presentation.translation import gettext

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


def takes_own_words(form: AnyForm) -> TypeGuard[Choice | MultiChoice]:
    """Whether an answer in one's own words is possible besides the options."""
    return isinstance(form, Choice | MultiChoice) and form.allow_other


def own_words_hint(question_id: str) -> str:
    """How to give an answer in one's own words."""
    return gettext("In your own words: handraise answer {id} --other TEXT").format(id=shown(question_id))


def with_own_words(question: Question, text: str | None, own: str) -> Json:
    """The value of an answer in one's own words; if several options may be chosen, also of those that were typed."""
    form = question.form
    if not takes_own_words(form):
        told = gettext("--other is not possible here. To see what is: handraise show {id}")
        raise CommandError(told.format(id=shown(question.id)))
    if text is None:
        return {"other": own} if isinstance(form, Choice) else [{"other": own}]
    if isinstance(form, Choice):
        raise CommandError(gettext("This question takes one answer: give an option, or --other TEXT."))
    # The options alone may be too few.
    options = value_of(replace(question, form=form.model_copy(update={"at_least": 0})), text)
    return [*(options if isinstance(options, list) else [options]), {"other": own}]


def with_arguments(question: Question, text: str, changed: Mapping[str, str]) -> Json:
    """The value of a typed approval with other arguments."""
    form, decision = question.form, value_of(question, text)
    is_approval = isinstance(decision, dict) and decision.get("decision") == "approve"
    if not isinstance(form, Approval) or not isinstance(decision, dict) or not is_approval:
        told = gettext(
            "--argument changes an action that you approve: handraise answer {id} approve --argument NAME=VALUE"
        )
        raise CommandError(told.format(id=shown(question.id)))
    if "arguments" in decision:
        raise CommandError(gettext("Give the arguments as JSON or with --argument, not both."))
    forms = {part.key: part.form for part in parts_of(form)}
    for name in changed:
        if name not in forms:
            told = gettext("{name} may not be changed. You may change: {names}")
            raise CommandError(told.format(name=shown(name), names=", ".join(map(shown, forms)) or "–"))
    return {
        **decision,
        "arguments": {name: _value_for(forms[name], given) for name, given in changed.items()},
    }


def _value_for(form: SimpleForm, text: str) -> Json:
    """The value of a text that may be JSON: the text itself if only that fits."""
    meant = json_or_text(text)
    try:
        check_answer(form, meant)
    except InvalidAnswer:
        return text
    return meant
