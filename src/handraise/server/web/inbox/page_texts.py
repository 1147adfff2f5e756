"""What happened, in words: times, people, answers and events as a page says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from handraise.model.deliveries import Delivery, DeliveryReason, DeliveryStatus, called_place
from handraise.model.events import Event
from handraise.model.evidence import PASSKEY_VOUCHED, VOUCHED
from handraise.model.forms import Approval, Scope
from handraise.model.outcomes import Answered, Declined, Outcome, Returned
from handraise.model.people import ADDRESS_BY
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.event_text import event_text
from handraise.presentation.names import channel_name, display_name, listed, recipient_name
from handraise.presentation.outcome_text import outcome_text
from handraise.presentation.times import moment_text, span
from handraise.presentation.translation import gettext, gettext_noop, pgettext

_MINUTE = timedelta(minutes=1)
_HOUR = 60
_DAY = 24 * _HOUR
_LONGEST_STORY = 40
_LONGEST_QUOTE = 600
_SURE = {
    "session": gettext_noop("signed in with a session"),
    "passkey": gettext_noop("signed with a passkey"),
    "signed-link": gettext_noop("with a link to this one question"),
    "client-asserted": gettext_noop("as the program in between says"),
    "email-sender": gettext_noop("as the sender of an e-mail says"),
    "slack-signature": gettext_noop("as Slack says, which signed it"),
    "webhook-signature": gettext_noop("as a system of theirs says, which signed it"),
    "slack-socket": gettext_noop("as Slack says"),
    "telegram-secret": gettext_noop("as Telegram says, which knew a secret"),
    "telegram-poll": gettext_noop("as Telegram says"),
    "teams-token": gettext_noop("as Microsoft Teams says, unsigned"),
    "discord-signature": gettext_noop("as Discord says, which signed it"),
}


_TOLD: dict[DeliveryReason, str] = {
    "asked": gettext_noop("A message for {recipient} through {channel}"),
    "reminded": gettext_noop("A reminder for {recipient} through {channel}"),
    "escalated": gettext_noop("A message about the escalation for {recipient} through {channel}"),
    "brought_in": gettext_noop("A message for {recipient}, who was brought in, through {channel}"),
    "noted": gettext_noop("A message about the note for {recipient} through {channel}"),
    "replied": gettext_noop("A message about the reply for {recipient} through {channel}"),
    "callback": gettext_noop("A callback to {recipient} at {place}, when the question has ended"),
}
_STANDINGS: dict[DeliveryStatus, str] = {
    DeliveryStatus.QUEUED: gettext_noop("on its way"),
    DeliveryStatus.SENT: gettext_noop("sent"),
    DeliveryStatus.UPDATED: gettext_noop("sent, and told how it ended"),
    DeliveryStatus.UNSENT: gettext_noop("not needed any more"),
    DeliveryStatus.FAILED: gettext_noop("failed"),
    DeliveryStatus.UNKNOWN: gettext_noop("arrived, perhaps"),
    DeliveryStatus.WAITING: gettext_noop("not sent yet"),
}


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of a story. `ours` is what we say; `quoted` is what somebody else wrote.

    `standing` is the state of a delivery, if the sentence does not say it: a message to somebody that
    has arrived, failed, or is on its way.
    """

    at: datetime
    ours: str
    quoted: tuple[str, ...] = ()
    standing: str = ""

    @property
    def quotes(self) -> tuple[str, ...]:
        """What somebody else wrote, each cut to a short text."""
        return tuple(
            each
            if len(each) <= _LONGEST_QUOTE
            else gettext("{beginning}… ({count} characters)").format(
                beginning=each[:_LONGEST_QUOTE], count=len(each)
            )
            for each in self.quoted
        )


@dataclass(frozen=True, slots=True)
class When:
    """An instant on a page: for the browser, for reading, and in full."""

    iso: str
    text: str
    full: str
    ticks: Literal["", "past", "any", "waited", "age", "end"] = ""
    """How a script keeps the text up to date: see times.js."""


def when(at: datetime, now: datetime) -> When:
    """An instant as people read it now."""
    if at > now:
        text = gettext("in {span}").format(span=span(at - now))
    elif now - at < _MINUTE:
        text = gettext("just now")
    else:
        text = gettext("{span} ago").format(span=span(now - at))
    return When(at.isoformat(), text, moment_text(at), "any")


def since(at: datetime, now: datetime) -> When:
    """A past instant, even if the store's clock is a little ahead of this one."""
    return replace(when(at, max(at, now)), ticks="past")


def waited_since(at: datetime, now: datetime) -> When:
    """How long a question from this instant has waited."""
    return When(
        at.isoformat(), gettext("waited {span}").format(span=span(now - at)), moment_text(at), "waited"
    )


def age_of(at: datetime, now: datetime) -> When:
    """The same in the fewest characters."""
    minutes = max(0, (now - at) // _MINUTE)
    if minutes < _HOUR:
        text = gettext("{count} min").format(count=minutes)
    elif minutes < _DAY:
        text = gettext("{count} h").format(count=minutes // _HOUR)
    else:
        text = gettext("{count} d").format(count=minutes // _DAY)
    return When(at.isoformat(), text, moment_text(at), "age")


def end_at(at: datetime, now: datetime) -> When:
    """When a pending question expires."""
    text = gettext("expires in {span}").format(span=span(at - now)) if at > now else gettext("its time is up")
    return When(at.isoformat(), text, moment_text(at), "end")


def voter_name(person: str, me: str) -> str:
    """A person in a list of people."""
    return pgettext("a person's name", "you") if person == me else display_name(person)


def audience_of(question: Question, me: str) -> str:
    """Who may answer, in words that follow "for"."""
    if not question.audience:
        return gettext("anyone in this workspace")
    return listed([recipient_name(each, viewer=me) for each in question.audience])


def outcome_in_words(question: Question, me: str) -> str:
    """How a question ended, in one sentence of ours; the answer or the reason is shown beside it."""
    outcome = question.outcome
    channel = outcome.channel if isinstance(outcome, (Answered, Declined, Returned)) else None
    return outcome_text(question, viewer=me).through(channel)


def evidence_in_words(outcome: Outcome) -> str | None:
    """How sure we are that it was this person."""
    evidence = outcome.evidence if isinstance(outcome, (Answered, Declined, Returned)) else None
    return None if evidence is None else _sure(evidence)


def _sure(evidence: str) -> str:
    if evidence.startswith(VOUCHED):
        maker = visible_line(evidence.removeprefix(VOUCHED))
        if maker.startswith(ADDRESS_BY):
            text = gettext("signed in with an e-mail address that {person} chose")
            return text.format(person=maker.removeprefix(ADDRESS_BY))
        return gettext("signed in with a link that {person} made").format(person=maker)
    if evidence.startswith(PASSKEY_VOUCHED):
        maker = visible_line(evidence.removeprefix(PASSKEY_VOUCHED))
        if maker.startswith(ADDRESS_BY):
            text = gettext("with a passkey, after signing in with an e-mail address that {person} chose")
            return text.format(person=maker.removeprefix(ADDRESS_BY))
        return gettext("with a passkey that was added with a link of {person}").format(person=maker)
    known = _SURE.get(evidence)
    return visible_line(evidence) if known is None else gettext(known)


def history_lines(question: Question, events: Sequence[Event], me: str) -> tuple[HistoryLine, ...]:
    """A question's history in words, oldest first; a long history is cut to its beginning and its end.

    How sure we are that it was a certain person is said once.
    """
    if len(events) > _LONGEST_STORY:
        more = len(events) - _LONGEST_STORY
        left_out = HistoryLine(
            events[1].at, gettext("{count} more events, not shown here").format(count=more)
        )
        began, *last = _lines(question, (events[0], *events[1 - _LONGEST_STORY :]), me)
        return (began, left_out, *last)
    return _lines(question, events, me)


def delivery_lines(deliveries: Sequence[Delivery], me: str, *, why: bool) -> tuple[HistoryLine, ...]:
    """Who was notified and through which channel, whether it arrived, and `why` not."""
    last = deliveries[-_LONGEST_STORY:]
    return tuple(
        HistoryLine(
            each.sent_at or each.created_at,
            gettext(_TOLD[each.reason]).format(
                recipient=recipient_name(each.recipient, viewer=me),
                channel=channel_name(each.channel),
                place=called_place(each),
            ),
            (visible_line(each.problem),) if why and each.problem else (),
            gettext(_STANDINGS[each.status]),
        )
        for each in last
    )


@dataclass(frozen=True, slots=True)
class ScopeText:
    """How far an approval reaches: `before` and `after` are our words around the agent's `names` of arguments."""

    name: str
    before: str
    names: str = ""
    after: str = ""


def scope_text(form: Approval, scope: Scope, now: datetime) -> ScopeText:
    """What a scope means, in plain words and with its end."""
    if scope == "once":
        return ScopeText(gettext("Only this once"), gettext("Next time the agent has to ask again."))
    end = moment_text(now + timedelta(seconds=form.remember_for))
    if scope == "session":
        name, sentence = gettext("For this conversation"), _reach_in_conversation(form)
    else:
        name, sentence = gettext("Always, until it ends"), _reach_anywhere(form)
    before, _, after = sentence.replace("{end}", end).partition("{names}")
    names = listed([gettext("“{name}”").format(name=visible_line(each)) for each in form.remember_by or ()])
    return ScopeText(name, before, names if form.remember_by else "", after)


def _reach_in_conversation(form: Approval) -> str:
    if form.remember_by is None:
        return gettext(
            "The agent may run this tool again with exactly these arguments, in this conversation and without "
            "asking, until {end}."
        )
    if not form.remember_by:
        return gettext(
            "The agent may run this tool again whatever its arguments are, in this conversation and without asking, "
            "until {end}."
        )
    return gettext(
        "The agent may run this tool again with the same {names}, whatever its other arguments are, in this "
        "conversation and without asking, until {end}."
    )


def _reach_anywhere(form: Approval) -> str:
    if form.remember_by is None:
        return gettext(
            "The agent may run this tool again with exactly these arguments, in any conversation and without asking, "
            "until {end}."
        )
    if not form.remember_by:
        return gettext(
            "The agent may run this tool again whatever its arguments are, in any conversation and without asking, "
            "until {end}."
        )
    return gettext(
        "The agent may run this tool again with the same {names}, whatever its other arguments are, in any "
        "conversation and without asking, until {end}."
    )


def _lines(question: Question, events: Sequence[Event], me: str) -> tuple[HistoryLine, ...]:
    said: set[tuple[str | None, str]] = set()
    lines = []
    for event in events:
        told = event_text(event, question.form, asker=question.asker, viewer=me)
        evidence = str(event.data.get("evidence", "")) if isinstance(event.data, dict) else ""
        is_new = evidence.startswith(VOUCHED) and (event.by, evidence) not in said
        said.add((event.by, evidence))
        lines.append(
            HistoryLine(event.at, f"{told.text}, {_sure(evidence)}" if is_new else told.text, told.quoted)
        )
    return tuple(lines)
