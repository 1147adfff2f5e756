"""Messages in another language: every sentence of ours is translated, and nothing that anybody else wrote is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handraise import Approval, Choice, Confirm, Field, Form, MultiChoice, Open, Option, Question
from handraise.channels import chat, ntfy, webpush
from handraise.channels.discord import messages as discord
from handraise.channels.discord import modals as discord_modals
from handraise.channels.email import mail_body, mail_texts
from handraise.channels.inbound_replies import ReplyResult
from handraise.channels.slack import messages as slack
from handraise.channels.slack import modals as slack_modals
from handraise.channels.teams import cards as teams
from handraise.channels.telegram import messages as telegram
from handraise.channels.telegram.references import QuestionReferences
from handraise.model.deliveries import Reason
from handraise.model.forms import AnyForm
from handraise.model.outcomes import Answered, Declined, Exhausted, Expired, Outcome, Returned, Withdrawn
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice
from handraise.presentation.plain_text import plain_text, too_late
from handraise.presentation.translation import Locale, use_locale
from handraise.testing.contract.channel import a_question, settled
from tests.marked_language import marked_language, text_of_html, texts_in, unmarked

AT = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
LINK = "https://example.com/1"
ACTION: dict[str, Any] = {"amet": "ipsum\n dolor", "elit": 3}
FORMS: dict[str, AnyForm] = {
    "choice": Choice.of("Ipsum", Option(id="1", label="Dolor", description="amet"), allow_other=True),
    "few": Choice.of("Ipsum", "Dolor"),
    "many": Choice.of(*(f"{number}" for number in range(50)), allow_other=True),
    "several": MultiChoice.of("Ipsum", "Dolor", "Amet", at_most=2, allow_other=True),
    "text": Open(),
    "number": Open(type="integer", minimum=1, maximum=9),
    "instant": Open(type="datetime"),
    "confirm": Confirm(),
    "form": Form(
        fields=(
            Field(name="magna", form=Choice.of("Ipsum", "Dolor"), title="Aliqua?"),
            Field(name="enim", form=Open(type="date"), required=False),
            Field(name="*elit*", form=Confirm(), default=True),
        )
    ),
    "approval": Approval.of("labore", ACTION, editable=["elit"]),
    "low risk": Approval.of("labore", {}, risk="low"),
    "high risk": Approval.of("labore", ACTION, risk="high"),
    "too large": Approval.of("labore", {"amet": "0 " * 9_000}),
}
REFERENCES = QuestionReferences("0")


def ask(form: AnyForm, **more: Any) -> Question:
    return a_question(form, prompt="Lorem **ipsum** dolor?", asker="tempor", asked_at=AT, **more)


QUESTIONS = {
    **{name: ask(form) for name, form in FORMS.items()},
    "more": ask(
        Confirm(),
        quorum=2,
        context={"ipsum": "dolor"},
        steps=(Step(timedelta(hours=8), "expire"),),
        undo_for=timedelta(minutes=1),
    ),
    "default": ask(Confirm(), steps=(Step(timedelta(hours=8), "default", record={"value": True}),)),
    "ends": ask(FORMS["approval"], steps=(Step(timedelta(hours=8), "expire"),)),
    "long": replace(ask(Open()), prompt="0 " * 6_000),
}
OUTCOMES: dict[str, tuple[AnyForm, Outcome]] = {
    "answered": (Choice.of("Ipsum"), Answered(value="Ipsum", at=AT, by="dolor")),
    "yes": (Confirm(), Answered(value=True, at=AT, by="dolor")),
    "default": (Confirm(), Answered(value=True, at=AT, by=None, source="default")),
    "approved": (
        FORMS["approval"],
        Answered(value={"decision": "approve", "arguments": {"amet": "ipsum", "elit": 4}}, at=AT, by="dolor"),
    ),
    "denied": (
        FORMS["approval"],
        Answered(value={"decision": "deny", "reason": "ipsum"}, at=AT, by="dolor"),
    ),
    "declined": (Open(), Declined(at=AT, by="dolor", reason="ipsum")),
    "returned": (Open(), Returned(at=AT, by="dolor", reason="ipsum")),
    "expired": (Open(), Expired(at=AT)),
    "withdrawn": (Open(), Withdrawn(at=AT, by="dolor", reason=None)),
    "exhausted": (Open(), Exhausted(at=AT, by="dolor")),
}
REASONS: tuple[Reason, ...] = ("asked", "reminded", "escalated")


def message(*questions: Question, reason: Reason = "asked", recipient: str = "enim") -> Message:
    notices = [Notice(delivery_id="d", question=each, reason=reason, link=LINK) for each in questions]
    return Message(
        id="d", workspace="magna", channel="any", recipient=recipient, to=None, at=AT, notices=notices
    )


def mail_words(mail: mail_body.Rendered) -> Iterator[str]:
    yield from (mail.subject, mail.text, text_of_html(mail.html))


def mail_of(told: Message) -> Iterator[str]:
    [notice] = told.notices
    for checked in (True, False):
        how = mail_texts.on_replying(notice.question, by_reply=True, checked=checked, several=checked)
        yield from mail_words(mail_body.render_question(told, notice, how=how, server="example.com"))


def slack_of(told: Message) -> Iterator[str]:
    [notice] = told.notices
    question, form = notice.question, notice.question.form
    rendered = slack.render_question(notice)
    yield from (rendered.text, *texts_in(list(rendered.blocks)))
    yield from texts_in(slack_modals.decline_view(question))
    yield from texts_in(slack_modals.send_back_view(question))
    if isinstance(form, Approval):
        yield from texts_in(slack_modals.deny_view(question, form.digest))
        if slack_modals.shown_parts(form):
            yield from texts_in(slack_modals.change_view(question, form))
        yield from texts_in(slack_modals.difference_view(question, form, {}, None))
    else:
        yield from texts_in(slack_modals.answer_view(question))


def teams_of(told: Message) -> Iterator[str]:
    [notice] = told.notices
    question, form = notice.question, notice.question.form
    yield teams.summary_of(told)
    yield from texts_in(teams.render_question(question, LINK, notice.reason))
    yield from texts_in(teams.message_card(question, LINK, ""))
    if isinstance(form, Approval):
        yield from texts_in(teams.approve_card(question, form, LINK))
        yield from texts_in(teams.change_card(question, form, LINK))
        yield from texts_in(teams.difference_card(question, form, LINK, {}, form.action.arguments))


def discord_of(told: Message) -> Iterator[str]:
    [notice] = told.notices
    question, form = notice.question, notice.question.form
    rendered = discord.render_question(notice)
    yield from (rendered.content, *texts_in(list(rendered.rows)))
    match form:
        case Approval():
            verbs = ["approve", "deny"]
            yield from texts_in(discord_modals.reason_modal(question, "reason"))
        case Confirm():
            verbs = ["yes", "no"]
        case Choice():
            verbs = ["option-0"]
        case _:
            verbs = []
            yield from texts_in(discord_modals.answer_modal(question))
    yield from texts_in(discord_modals.reason_modal(question, "decline"))
    yield from texts_in(discord_modals.reason_modal(question, "send_back"))
    for verb in verbs:
        confirmation = discord.render_confirmation(question, verb)
        yield from (confirmation.content, *texts_in(list(confirmation.rows)))


def telegram_of(told: Message) -> Iterator[str]:
    [notice] = told.notices
    question = notice.question
    for room in (True, False):
        yield from texts_in(telegram.render_question(notice, REFERENCES, room=room).body)
    for action in "wtre":
        prompt = telegram.render_reply_prompt(
            question, LINK, REFERENCES, action, user=1, name=None, problem=()
        )
        yield from texts_in(prompt.body)
    for action in "xynad":
        yield from texts_in(telegram.render_confirmation(question, REFERENCES, action, 0))


ASKED: dict[str, Callable[[Message], Iterable[str]]] = {
    "email": mail_of,
    "slack": slack_of,
    "teams": teams_of,
    "discord": discord_of,
    "telegram": telegram_of,
    "ntfy": lambda told: texts_in(ntfy.question_content(told)),
    "webpush": lambda told: texts_in(json.loads(webpush.payload_of(told))),
    "chat": lambda told: [chat.question_text(told.notices[0]), plain_text(told.notices[0].question)],
}


@pytest.mark.parametrize("channel", ASKED)
def test_a_question_is_asked_in_the_language_of_the_person(
    channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with marked_language(monkeypatch):
        for name, question in QUESTIONS.items():
            for reason in REASONS if name in ("confirm", "approval") else REASONS[:1]:
                assert unmarked(ASKED[channel](message(question, reason=reason))) == [], name


BUNDLED: dict[str, Callable[[Message], Iterable[str]]] = {
    "email": lambda told: mail_words(mail_body.render_bundle(told, server="example.com")),
    "slack": lambda told: texts_in(list(slack.render_bundle(told).blocks)),
    "teams": lambda told: [teams.summary_of(told), *texts_in(teams.render_bundle(told.notices))],
    "discord": lambda told: [discord.render_bundle(told).content],
    "telegram": lambda told: texts_in(telegram.render_bundle(told).body),
    "ntfy": lambda told: texts_in(ntfy.question_content(told)),
    "webpush": lambda told: texts_in(json.loads(webpush.payload_of(told))),
    "chat": lambda told: [
        chat.bundle_text(told.notices),
        *chat.which_question_text([each.question for each in told.notices]),
    ],
}


@pytest.mark.parametrize("channel", BUNDLED)
def test_several_questions_are_told_in_the_language_of_the_person(
    channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [QUESTIONS["confirm"], QUESTIONS["approval"], *([QUESTIONS["text"]] * 30)]
    with marked_language(monkeypatch):
        for recipient in ("enim", "*", "group:enim"):
            assert unmarked(BUNDLED[channel](message(*many, recipient=recipient))) == []


ENDED: dict[str, Callable[[Message], Iterable[str]]] = {
    "email": lambda told: mail_words(mail_body.render_outcome(told, told.notices[0], server="example.com")),
    "slack": lambda told: texts_in(list(slack.render_outcome(told.notices[0].question).blocks)),
    "teams": lambda told: [teams.summary_of(told), *texts_in(teams.render_outcome(told.notices[0].question))],
    "discord": lambda told: [discord.render_outcome(told.notices[0].question).content],
    "telegram": lambda told: texts_in(
        telegram.render_outcome(told.notices[0].question, LINK, REFERENCES).body
    ),
    "ntfy": lambda told: texts_in(ntfy.outcome_content(told)),
}


@pytest.mark.parametrize("channel", ENDED)
def test_an_outcome_is_told_in_the_language_of_the_person(
    channel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with marked_language(monkeypatch):
        for name, (form, outcome) in OUTCOMES.items():
            told = message(settled(ask(form), outcome))
            assert unmarked(ENDED[channel](told)) == [], name
            assert unmarked([too_late(outcome)]) == [], name


def test_a_mail_about_a_reply_is_in_the_language_of_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    with marked_language(monkeypatch):
        for question in (None, QUESTIONS["text"]):
            result = ReplyResult("misfit", "", question)
            mail = mail_body.render_text(result, "ipsum", again=True, server="example.com")
            assert unmarked(mail_words(mail)) == []
            assert '<html lang="de"' in mail.html


def largest(is_shown: Callable[[Question], bool]) -> int:
    """How large an action can be so that it is decided in a chat."""
    low, high = 0, 30_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_shown(ask(large(middle))) else (low, middle)
    return low


def large(size: int) -> Approval:
    return Approval.of("labore", {"amet": "x" * size})


@pytest.mark.parametrize("is_shown", [slack.shows_action, teams.can_be_decided, telegram.can_be_answered])
def test_whether_an_action_can_be_decided_does_not_depend_on_the_language(
    is_shown: Callable[[Question], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with marked_language(monkeypatch):
        marked = largest(is_shown)
        with use_locale(Locale("en")):
            assert largest(is_shown) == marked > 0
