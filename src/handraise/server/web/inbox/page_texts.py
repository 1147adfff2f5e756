"""What happened, in words: times, people, answers and events as a page says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from handraise.model.deliveries import Delivery, DeliveryStatus, Reason
from handraise.model.events import Event
from handraise.model.forms import Approval, Scope
from handraise.model.outcomes import Answered, Declined, Outcome
from handraise.model.people import VOUCHED
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.event_text import event_text
from handraise.presentation.names import channel_name, listed, person_name, recipient_name
from handraise.presentation.outcome_text import outcome_text
from handraise.presentation.times import moment_text

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
_LONGEST_STORY = 40
_LONGEST_QUOTE = 600
_SURE = {
    "session": "signed in with a session",
    "signed-link": "with a link to this one question",
    "client-asserted": "as the program in between says",
    "email-sender": "as the sender of an e-mail says",
    "slack-signature": "as Slack says, which signed it",
    "webhook-signature": "as a system of theirs says, which signed it",
    "slack-socket": "as Slack says",
    "telegram-secret": "as Telegram says, which knew a secret",
    "telegram-poll": "as Telegram says",
    "teams-token": "as Microsoft Teams says, unsigned",
    "discord-signature": "as Discord says, which signed it",
}


_TOLD: dict[Reason, str] = {
    "asked": "A message for {recipient} through {channel}",
    "reminded": "A reminder for {recipient} through {channel}",
    "escalated": "A message about the escalation for {recipient} through {channel}",
}
_STANDINGS: dict[DeliveryStatus, str] = {
    DeliveryStatus.QUEUED: "on its way",
    DeliveryStatus.SENT: "sent",
    DeliveryStatus.UPDATED: "sent, and told how it ended",
    DeliveryStatus.UNSENT: "not needed any more",
    DeliveryStatus.FAILED: "failed",
    DeliveryStatus.UNKNOWN: "arrived, perhaps",
}


@dataclass(frozen=True, slots=True)
class Said:
    """One line of a story. `ours` is what we say; `quoted` is what somebody else wrote.

    `standing` is how far it has come, where that is not in the sentence: a message that was sent to somebody and
    has arrived, failed, or is on its way.
    """

    at: datetime
    ours: str
    quoted: tuple[str, ...] = ()
    standing: str = ""

    @property
    def quotes(self) -> tuple[str, ...]:
        """What somebody else wrote, each no longer than one reads in passing."""
        return tuple(
            each if len(each) <= _LONGEST_QUOTE else f"{each[:_LONGEST_QUOTE]}… ({len(each)} characters)"
            for each in self.quoted
        )


def span(length: timedelta) -> str:
    """A length of time as people say it: its largest unit, and the next where that says much."""
    seconds = max(0, int(length.total_seconds()))
    for place, (size, unit) in enumerate(_UNITS):
        count, rest = divmod(seconds, size)
        if not count:
            continue
        text = _count(count, unit)
        if count < 3 and place + 1 < len(_UNITS):  # noqa: PLR2004 -- two days and how many hours
            below, name = _UNITS[place + 1]
            if rest // below:
                text += f" {_count(rest // below, name)}"
        return text
    return "less than a minute"


@dataclass(frozen=True, slots=True)
class When:
    """An instant on a page: for the browser, for reading, and in full."""

    iso: str
    text: str
    full: str
    ticks: Literal["", "past", "any", "waited", "end"] = ""
    """How a script keeps the text true: see times.js."""


def when(at: datetime, now: datetime) -> When:
    """An instant as one reads it now."""
    text = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return When(
        at.isoformat(), "just now" if text == "less than a minute ago" else text, moment_text(at), "any"
    )


def since(at: datetime, now: datetime) -> When:
    """An instant that has been, also where the store's clock is a little ahead of this one."""
    return replace(when(at, max(at, now)), ticks="past")


def waited_since(at: datetime, now: datetime) -> When:
    """How long something has waited that was asked at this instant."""
    return When(at.isoformat(), f"waited {span(now - at)}", moment_text(at), "waited")


def end_at(at: datetime, now: datetime) -> When:
    """When the clock ends something that is pending."""
    text = f"expires in {span(at - now)}" if at > now else "its time is up"
    return When(at.isoformat(), text, moment_text(at), "end")


def name_of(person: str | None, me: str) -> str:
    """A person as one reads about them."""
    return person_name(person, viewer=me)


def audience_of(question: Question, me: str) -> str:
    """Who may answer, in words."""
    if not question.audience:
        return "anyone in this workspace"
    return listed([recipient_name(each, viewer=me) for each in question.audience])


def channel_of(channel: str | None) -> str:
    """Through what something came, in words that follow the deed."""
    return "" if channel is None else f" through {channel_name(channel)}"


def outcome_in_words(question: Question, me: str) -> str:
    """How a question ended, as one sentence of ours; what was answered, or why not, stands beside it."""
    outcome = question.outcome
    channel = outcome.channel if isinstance(outcome, (Answered, Declined)) else None
    return outcome_text(question, viewer=me).through(channel)


def evidence_in_words(outcome: Outcome) -> str | None:
    """How sure we are that it was this person."""
    evidence = outcome.evidence if isinstance(outcome, (Answered, Declined)) else None
    return None if evidence is None else _sure(evidence)


def _sure(evidence: str) -> str:
    if evidence.startswith(VOUCHED):
        maker = visible_line(evidence.removeprefix(VOUCHED))
        return f"signed in with a link that {maker} made"
    return _SURE.get(evidence, visible_line(evidence))


def story_of(question: Question, events: Sequence[Event], me: str) -> tuple[Said, ...]:
    """A question's history in words, oldest first; of a long one, how it began and what came last."""
    if len(events) > _LONGEST_STORY:
        left_out = Said(events[1].at, f"{len(events) - _LONGEST_STORY} more events, not shown here")
        began, last = _said(question, events[0], me), events[1 - _LONGEST_STORY :]
        return (began, left_out, *(_said(question, event, me) for event in last))
    return tuple(_said(question, event, me) for event in events)


def told_of(deliveries: Sequence[Delivery], me: str, *, why: bool) -> tuple[Said, ...]:
    """Whom it was told to and through what, and whether that arrived; and `why` not."""
    last = deliveries[-_LONGEST_STORY:]
    return tuple(
        Said(
            each.sent_at or each.created_at,
            _TOLD[each.reason].format(
                recipient=recipient_name(each.recipient, viewer=me), channel=channel_name(each.channel)
            ),
            (visible_line(each.problem),) if why and each.problem else (),
            _STANDINGS[each.status],
        )
        for each in last
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an approval reaches: `before` and `after` are our words around the agent's `names` of arguments."""

    name: str
    before: str
    names: str = ""
    after: str = ""


def reach_of(form: Approval, scope: Scope, now: datetime) -> Reach:
    """What a scope means, in plain words and with its end."""
    if scope == "once":
        return Reach("Only this once", "Next time the agent has to ask again.")
    name, where = {
        "session": ("For this conversation", "in this conversation"),
        "always": ("Always, until it ends", "in any conversation"),
    }[scope]
    run, names = "The agent may run this tool again", ""
    end = f"{where} and without asking, until {moment_text(now + timedelta(seconds=form.remember_for))}."
    if form.remember_by is None:
        return Reach(name, f"{run} with exactly these arguments, {end}")
    if not form.remember_by:
        return Reach(name, f"{run} whatever its arguments are, {end}")
    names = listed([f"“{visible_line(each)}”" for each in form.remember_by])
    return Reach(name, f"{run} with the same", names, f"whatever its other arguments are, {end}")


def _said(question: Question, event: Event, me: str) -> Said:
    told = event_text(event, question.form, asker=question.asker, viewer=me)
    evidence = str(event.data.get("evidence", "")) if isinstance(event.data, dict) else ""
    ours = f"{told.text}, {_sure(evidence)}" if evidence.startswith(VOUCHED) else told.text
    return Said(event.at, ours, told.quoted)


def _count(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
