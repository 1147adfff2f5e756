"""What happened to a question, one sentence for each event: the same on pages and in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from handraise.model.events import Event, EventKind
from handraise.model.forms import AnyForm
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Returned, Withdrawn
from handraise.model.visible import visible
from handraise.presentation.answer_text import answer_parts
from handraise.presentation.error_text import error_text
from handraise.presentation.names import listed, person_name, recipient_name, through
from handraise.presentation.outcome_text import ending_details, ending_text
from handraise.presentation.translation import gettext


@dataclass(frozen=True, slots=True)
class EventText:
    """A sentence of ours without its full stop, and what somebody else wrote: an answer, a reason, problems."""

    text: str
    quoted: tuple[str, ...] = ()


def event_text(
    event: Event, form: AnyForm | None, *, asker: str | None = None, viewer: str = ""
) -> EventText:
    """An event in words. Values need the question's form; `asker` is called "the agent", and `viewer` "you"."""
    data: Mapping[str, Json] = event.data if isinstance(event.data, dict) else {}
    person = through(person_name(event.by, viewer=viewer, asker=asker), event.channel)
    match event.kind:
        case EventKind.ASKED:
            return EventText(gettext("Asked by {person}").format(person=person))
        case EventKind.ATTEMPTED:
            return EventText(
                gettext("An answer by {person} did not fit").format(person=person), _attempt(data, form)
            )
        case EventKind.VOTED:
            votes = "value" in data
            text = gettext("A vote by {person}") if votes else gettext("A vote by {person} not to answer")
            if data.get("returns") is True:
                text = gettext("A vote by {person} to send it back")
            quoted = _values(data, form) or _reason(data)
            if "to" in data:
                text = gettext("A vote by {person}, after which others are asked")
                quoted += (listed([recipient_name(str(each), viewer=viewer) for each in data["to"]]),)
            return EventText(text.format(person=person), quoted)
        case EventKind.REMINDED:
            return EventText(gettext("A reminder was due"))
        case EventKind.ESCALATED:
            names = [recipient_name(str(each), viewer=viewer) for each in data.get("to", ())]
            return EventText(
                gettext("Escalated, because nobody had answered: others may answer too"), (listed(names),)
            )
        case (
            EventKind.ANSWERED
            | EventKind.DECLINED
            | EventKind.EXPIRED
            | EventKind.WITHDRAWN
            | EventKind.EXHAUSTED
            | EventKind.RETURNED
        ):
            outcome = _outcome(event, data)
            text = ending_text(outcome, form, asker=asker, viewer=viewer).through(event.channel)
            if isinstance(outcome, Exhausted):
                return EventText(text, _attempt(data, form))
            return EventText(text, tuple(map(str, ending_details(outcome, form))))
        case EventKind.CONSUMED:
            return EventText(
                gettext("The approved action was taken by {person}, to execute it").format(person=person)
            )
        case EventKind.TAKEN_BACK:
            return EventText(
                gettext("The approval was taken back by {person}").format(person=person), _reason(data)
            )
        case EventKind.REPORTED:
            done = gettext("Reported by {person} as done")
            text = done if data.get("ok") is True else gettext("Reported by {person} as failed")
            written = (str(data[name]) for name in ("text", "link") if data.get(name))
            return EventText(text.format(person=person), tuple(map(visible, written)))
        case EventKind.ASKED_BACK:
            return EventText(
                gettext("The agent was asked something by {person}").format(person=person), _written(data)
            )
        case EventKind.NOTED:
            return EventText(gettext("A note by {person}").format(person=person), _written(data))
        case EventKind.REPLIED:
            return EventText(gettext("A reply by {person}").format(person=person), _written(data))
        case EventKind.REPLACED:
            return EventText(gettext("Another question was asked instead by {person}").format(person=person))
        case EventKind.OPENED:
            return EventText(
                gettext(
                    "The equal question that it followed has ended without an answer for this one, so this one is asked"
                )
            )
        case EventKind.TAKEN:
            return EventText(gettext("Taken by {person}, to work on the answer").format(person=person))
        case EventKind.RELEASED:
            return EventText(gettext("Released by {person}").format(person=person))
        case EventKind.BROUGHT_IN | EventKind.HANDED_OVER:
            brought_in = gettext("Others were brought in by {person}")
            text = brought_in if event.kind is EventKind.BROUGHT_IN else gettext("Handed over by {person}")
            names = [recipient_name(str(each), viewer=viewer) for each in data.get("to", ())]
            return EventText(text.format(person=person), (listed(names), *_reason(data)))
        case EventKind.SET_ASIDE:
            for_now = gettext("Snoozed by {person}")
            text = for_now if data.get("until") else gettext("Taken out of the inbox of {person}")
            return EventText(text.format(person=person))
        case EventKind.PUT_BACK:
            return EventText(_put_back(data, person, viewer))
        case EventKind.REVOKED:
            return EventText(_revoked(data).format(person=person))
        case EventKind.KEPT:
            return EventText(
                gettext("The answer is kept for new questions by {person}").format(person=person)
            )
        case EventKind.SENT:
            return EventText(gettext("Shown in a chat by {person}").format(person=person))
        case EventKind.JOINED:
            return EventText(
                gettext("Another call by {person} waits for the same answer").format(person=person)
            )
        case EventKind.UNREACHED:
            return EventText(gettext("No notification was delivered"))
        case _:
            assert_never(event.kind)


def _put_back(data: Mapping[str, Json], person: str, viewer: str) -> str:
    if "instead_of" not in data:
        return gettext("Put back into the inbox of {person}").format(person=person)
    text = gettext("Back in the inbox of {person}, because {name}, who was to answer it, has left")
    return text.format(person=person, name=recipient_name(str(data["instead_of"]), viewer=viewer))


def _revoked(data: Mapping[str, Json]) -> str:
    if "question" in data:
        return gettext("The standing answer ended, because {person} answered the same question differently")
    if "standing" in data:
        return gettext("The standing answer was revoked by {person}")
    return gettext("The grant was revoked by {person}")


def _written(data: Mapping[str, Json]) -> tuple[str, ...]:
    """What somebody wrote. Agents do not see what people note for each other."""
    return (visible(str(data["text"])),) if data.get("text") else ()


def _outcome(event: Event, data: Mapping[str, Json]) -> Outcome:
    """How the question ended with this event."""
    at, by, reason = event.at, event.by or "", data.get("reason")
    match event.kind:
        case EventKind.ANSWERED:
            return Answered(value=data.get("value"), at=at, by=event.by, source=data.get("source", "person"))
        case EventKind.DECLINED:
            return Declined(at=at, by=by, reason=reason)
        case EventKind.WITHDRAWN:
            return Withdrawn(at=at, by=by, reason=reason)
        case EventKind.EXHAUSTED:
            return Exhausted(at=at, by=by)
        case EventKind.RETURNED:
            return Returned(at=at, by=by, reason=str(reason or ""))
        case _:
            return Expired(at=at)


def _attempt(data: Mapping[str, Json], form: AnyForm | None) -> tuple[str, ...]:
    """An answer that did not fit, and why. A record of another release may have something else there."""
    found = data.get("problems")
    problems = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    pairs = ((each.get("path"), error_text(str(each.get("message") or ""))) for each in problems)
    return (
        *_values(data, form),
        *(visible(": ".join(str(part) for part in pair if part)) for pair in pairs),
    )


def _values(data: Mapping[str, Json], form: AnyForm | None) -> tuple[str, ...]:
    if form is None or "value" not in data:
        return ()
    return tuple(map(str, answer_parts(form, data["value"])))


def _reason(data: Mapping[str, Json]) -> tuple[str, ...]:
    return (visible(str(data["reason"])),) if data.get("reason") else ()
