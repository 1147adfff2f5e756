"""A question as its card shows it, and the answer from what was entered there.

The card gets only texts, and puts them on the page as texts. Everything that an agent wrote has its invisible characters
shown. What colleagues note for each other is not in it: a client may show a model what a card gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from handraise import (
    Answered,
    Approval,
    Choice,
    InvalidAnswer,
    MultiChoice,
    Open,
    Option,
    Problem,
    Question,
)
from handraise.forms import AnyForm, Confirm, File
from handraise.model.argument_order import reading_order
from handraise.model.forms import takes_files
from handraise.model.json_values import Json
from handraise.model.thread_messages import ThreadMessage
from handraise.model.visible import visible, visible_line
from handraise.outcomes import Returned
from handraise.presentation.agreement_text import still_needed
from handraise.presentation.brief_text import (
    brief_links,
    brief_rows,
    brief_title,
    preview_title,
    previews_of,
    recommended_text,
)
from handraise.presentation.error_text import error_text
from handraise.presentation.form_parts import Entered, Part, initial, is_about, parts_of, read_parts
from handraise.presentation.form_text import hint_of, pattern_hint, typed_hint
from handraise.presentation.names import display_name
from handraise.presentation.outcome_text import edited_arguments, outcome_details, outcome_text
from handraise.presentation.risk_text import risk_text
from handraise.presentation.thread_text import message_text
from handraise.presentation.translation import current_locale, gettext

View = dict[str, Json]

LONGEST = 60_000
"""What a card shows at most, in characters; an action must be read completely."""
_MOST_TEXT = 100_000
_SHORT_JSON = 72


def view_of(question: Question, thread: Sequence[ThreadMessage], *, viewer: str, may_answer: bool) -> View:
    """What the card shows to this person, in the current language."""
    why_not = None if question.outcome is not None else _why_not(question, thread, may_answer=may_answer)
    can_answer = question.outcome is None and why_not is None
    form = question.form
    before, _, after = (
        gettext("%(agent)s asks for your approval")
        if isinstance(form, Approval)
        else gettext("%(agent)s asks")
    ).partition("%(agent)s")
    return {
        "question_id": question.id,
        "status": question.status.value,
        "heading": [before, display_name(question.asker), after],
        "prompt": None if isinstance(form, Approval) else visible(question.prompt),
        "context": None if question.context is None else visible(_text(question.context)),
        "action": _action(form) if isinstance(form, Approval) else None,
        "brief": _brief(form) if isinstance(form, Approval) else None,
        "previews": [
            {"title": preview_title(each), "text": visible(each.text)} for each in previews_of(form)
        ],
        "is_approval": isinstance(form, Approval),
        "parts": [_part(each) for each in parts_of(form)] if can_answer else [],
        "thread": _thread(thread),
        "waits": gettext("Waiting for the agent's reply.") if question.is_askers_turn else None,
        "seen": question.thread,
        "voted": _voted(question, viewer),
        "can_answer": can_answer,
        "can_ask_back": may_answer and question.outcome is None and question.replies is not None,
        "why_not": why_not,
        "url": question.url if question.outcome is None else None,
        "outcome": _outcome(question, viewer),
        "language": current_locale().language,
        "texts": card_texts(question),
    }


def card_texts(question: Question) -> dict[str, str]:
    """Our words on the card, in the current language."""
    unchanged = (
        gettext("Nothing is approved: the agent changes it and asks again.")
        if isinstance(question.form, Approval)
        else gettext("Nothing is answered: the agent changes it and asks again.")
    )
    return {
        "approve": gettext("Approve"),
        "approve_edited": gettext("Approve with changes"),
        "deny": gettext("Deny"),
        "send": gettext("Send the answer"),
        "ask_back": gettext("Ask the agent"),
        "send_back": gettext("Send back"),
        "decline": gettext("Decline to answer"),
        "cancel": gettext("Cancel"),
        "question": gettext("What do you want to know?"),
        "change": gettext("What should change"),
        "reason": gettext("Reason"),
        "optional": gettext("(optional)"),
        "unchanged": unchanged,
        "executed": (
            gettext("What will be executed") if question.outcome is None else gettext("What was asked for")
        ),
        "edit": gettext("Change something before you approve"),
        "links": gettext("Links"),
        "conversation": gettext("The conversation so far:"),
        "was": gettext("It was:"),
        "open": gettext("Open in the inbox"),
        "misfit": gettext("That does not fit yet."),
        "working": gettext("Sending…"),
        "told": gettext("The agent is told."),
        "untold": gettext("Write to the agent that it can go on."),
        "tell": gettext("Tell the agent"),
        "failed": gettext("That did not work. Try again, or answer in the inbox."),
    }


def read_answer(form: AnyForm, request: Mapping[str, Json]) -> Json:
    """The answer in what the card sends; raises `InvalidAnswer` with all problems."""
    if isinstance(form, Approval):
        return _read_decision(form, request)
    return read_parts(_entries(form, request)).checked()


def problems_of(form: AnyForm, problems: Iterable[Problem]) -> list[Json]:
    """What is wrong with an answer: each with the name of its part on the card, None if it has none."""
    parts = parts_of(form)
    return [
        {
            "part": next((part.name for part in parts if is_about(part, each)), None),
            "text": visible(error_text(each.message))[:500],
        }
        for each in list(problems)[:20]
    ]


def _read_decision(form: Approval, request: Mapping[str, Json]) -> Json:
    decision = request.get("decision")
    # A desk accepts other words for an approval if a person typed them; a button sends exactly one.
    if decision not in ("approve", "deny"):
        raise InvalidAnswer(
            [Problem("decision", 'expected "approve" or "deny", or an object with "decision" and "reason"')]
        )
    value: dict[str, Json] = {"decision": decision, "digest": form.digest}
    if isinstance(reason := request.get("reason"), str) and reason.strip():
        value["reason"] = reason
    if decision == "approve" and (edits := read_parts(_entries(form, request)).checked()):
        value["arguments"] = edits
    return value


def _entries(form: AnyForm, request: Mapping[str, Json]) -> list[tuple[Part, Entered]]:
    parts = request.get("parts")
    sent = parts if isinstance(parts, dict) else {}
    return [(part, _entered(part, sent.get(part.name))) for part in parts_of(form)]


def _entered(part: Part, sent: Json) -> Entered:
    """What was entered in a part. An argument that is not sent is unchanged; anything odd is as good as empty."""
    if not isinstance(sent, dict):
        return initial(part) if part.is_argument else Entered()
    picked, text, other = sent.get("picked"), sent.get("text"), sent.get("other")
    return Entered(
        frozenset(each for each in picked if type(each) is int) if isinstance(picked, list) else frozenset(),
        text=text[:_MOST_TEXT] if isinstance(text, str) else "",
        # The input for it is always there, and empty if nobody wants it.
        other=other[:_MOST_TEXT] if isinstance(other, str) and other.strip() else None,
    )


def _why_not(question: Question, thread: Sequence[ThreadMessage], *, may_answer: bool) -> str | None:
    """Why this person cannot answer it on the card; None if they can."""
    form = question.form
    if not may_answer:
        return gettext("You can look at this one, but not answer it.")
    if isinstance(form, Approval):
        if form.risk == "high":
            return gettext(
                "An action of high risk is decided in the inbox, where people sign in. Open it there."
            )
        if any(each.kind == "noted" for each in thread):
            return gettext("There is a note of a colleague that is not shown here: decide in the inbox.")
    if takes_files(form) or question.attachments:
        return gettext("It is answered in the inbox.")
    if _length(question, thread) > LONGEST:
        return gettext("This is too large to be answered here. Open it in the inbox.")
    return None


def _length(question: Question, thread: Sequence[ThreadMessage]) -> int:
    arguments = question.form.action.arguments if isinstance(question.form, Approval) else {}
    texts = [question.prompt, json.dumps([question.context, arguments]), *(each.text for each in thread)]
    return sum(map(len, texts))


def _action(form: Approval) -> View:
    risk = risk_text(form)
    return {
        "tool": visible_line(form.action.tool),
        "arguments": [
            {"name": visible_line(name), "text": visible(_text(value))}
            for name, value in reading_order(form.action.arguments).items()
        ],
        "risk": {"level": risk.level, "name": risk.name, "text": risk.text},
    }


def _brief(form: Approval) -> View | None:
    if form.brief is None:
        return None
    return {
        "title": brief_title(),
        "rows": [{"name": row.name, "words": list(row.words)} for row in brief_rows(form.brief)],
        "links": [
            {"label": each.label, "host": each.host, "url": each.url} for each in brief_links(form.brief)
        ],
    }


def _part(part: Part) -> View:
    form, entered = part.form, initial(part)
    lines = part.has_lines or "\n" in entered.text
    return {
        "name": part.name,
        "kind": _kind(part, lines=lines),
        "label": visible_line(part.label),
        "is_titled": part.title is not None,
        "description": None if part.description is None else visible(part.description),
        "hint": " ".join(filter(None, (typed_hint(form) or hint_of(form), pattern_hint(form)))),
        "optional": not part.required,
        "is_argument": part.is_argument,
        "number": isinstance(form, Open) and form.type in ("integer", "number"),
        "options": [_option(each) for each in part.options],
        "none": gettext("Leave it open")
        if isinstance(form, Choice | Confirm) and not part.required
        else None,
        "other": part.other_label if part.has_other else None,
        "initial": {"picked": sorted(entered.picked), "text": entered.text, "other": entered.other or ""},
    }


def _kind(part: Part, *, lines: bool) -> str:
    match part.form:
        case Choice() | Confirm():
            return "one"
        case MultiChoice():
            return "several"
        case Open():
            return "lines" if lines else "line"
        case File():
            return "file"
        case _:
            assert_never(part.form)


def _option(option: Option) -> View:
    return {
        "label": visible_line(option.label),
        "description": None if option.description is None else visible(option.description),
        "recommended": recommended_text(option),
    }


def _thread(thread: Sequence[ThreadMessage]) -> list[Json]:
    return [
        {
            "heading": (text := message_text(each)).heading,
            "is_agent": each.kind == "replied",
            "text": gettext("It is in the inbox.") if each.kind == "noted" else text.text,
        }
        for each in thread
    ]


def _voted(question: Question, viewer: str) -> str | None:
    if question.outcome is not None or not any(vote.by == viewer for vote in question.votes):
        return None
    return " ".join(filter(None, (gettext("Your vote is in; others must agree."), still_needed(question))))


def _outcome(question: Question, viewer: str) -> View | None:
    outcome = question.outcome
    if outcome is None:
        return None
    decision = question.decision
    is_good = isinstance(outcome, Answered) and (decision is None or decision.approved)
    arguments = question.form.action.arguments if isinstance(question.form, Approval) else {}
    edited = edited_arguments(question) or {}
    details = [{"name": each.name, "text": visible(each.text)} for each in outcome_details(question)]
    details += [
        {"name": visible_line(name), "text": visible(_text(value))}
        for name, value in edited.items()
        if value != arguments.get(name)
    ]
    return {
        "text": str(outcome_text(question, viewer=viewer)),
        "tone": "good" if is_good else "back" if isinstance(outcome, Returned) else "quiet",
        "details": details,
    }


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHORT_JSON else json.dumps(value, ensure_ascii=False, indent=2)
