"""Whatever an agent or a person writes stays text in a mail: no header, no markup, no link and no line of ours."""

from __future__ import annotations

import email
import email.policy
import unicodedata
from collections.abc import Iterator
from datetime import timedelta
from email.headerregistry import Address
from email.message import EmailMessage

import pytest

from handraise import Approval
from handraise.channels.email.mail_body import (
    Rendered,
    render_bundle,
    render_outcome,
    render_question,
    render_text,
)
from handraise.channels.email.mime import build_mail
from handraise.channels.inbound_replies import ReplyResult
from handraise.model.forms import AnyForm, Choice, Field, Form, MultiChoice, Open, Option
from handraise.model.outcomes import Answered, Declined, Returned, Withdrawn
from handraise.model.questions import Question
from handraise.model.timelines import Step
from handraise.ports.channel import Message, Notice
from handraise.testing.contract.channel import AT, a_question, link_to
from handraise.testing.contract.channel import settled as ended
from tests.channels.mail_servers import Seen
from tests.samples import hostile
from tests.server.inbox.hostile import MARK, NAMES, TEXTS

SENDER = Address("Handraise", addr_spec="desk@example.org")
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "table", "tr", "td", "h1", "h2", "p", "span", "a"),
    *("br", "wbr"),
    # What an agent's Markdown can become.
    *(
        "div",
        "thead",
        "tbody",
        "th",
        "strong",
        "em",
        "s",
        "code",
        "pre",
        "ul",
        "ol",
        "li",
        "blockquote",
        "hr",
    ),
}
HEADERS = {
    *("Message-ID", "In-Reply-To", "References", "From", "To", "Reply-To", "Subject", "Date", "MIME-Version"),
    *("Auto-Submitted", "X-Auto-Response-Suppress", "Content-Type"),
}
UNSEEN = ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")


def forms(text: str, name: str) -> Iterator[AnyForm]:
    """Every place where an agent can write something."""
    option = Option(id=name, label=name, description=text[:500])
    yield Choice(options=(option, Option(id="b", label="b")), allow_other=True)
    yield MultiChoice(options=(option, Option(id="b", label="b")))
    yield Form(fields=(Field(name=name, form=Open(), title=name, description=text[:500], default=text),))
    yield Approval.of(name, {name: text, "list": [text, {"deep": text}], "e": text}, editable=["e"])


def letters(question: Question, text: str, name: str) -> Iterator[Rendered]:
    """Every mail that there can be about a question."""
    link, how = link_to(question), "You can reply."

    def message(*questions: Question) -> Message:
        notices = [
            Notice(delivery_id="d", question=each, reason="escalated", link=link) for each in questions
        ]
        return Message(
            id="d", workspace="w", channel="email", recipient="ann", to="ann@x", at=AT, notices=notices
        )

    first = message(question)
    yield render_question(first, first.notices[0], how=how, server="ask.example.org")
    yield render_bundle(message(question, question), server="ask.example.org")
    for outcome in (
        Answered(value={"other": text}, at=AT, by=name, channel=name),
        Declined(at=AT, by=name, reason=text),
        Returned(at=AT, by=name, reason=text),
        Withdrawn(at=AT, by=name, reason=text),
    ):
        after = message(ended(question, outcome))
        yield render_outcome(after, after.notices[0], server="ask.example.org")
    yield render_text(
        ReplyResult("misfit", f"That does not fit: {text}.", question),
        text,
        again=True,
        server="ask.example.org",
    )


def check(rendered: Rendered) -> None:
    """Fail where something that was not ours is more than a text in its box."""
    raw = build_mail(rendered, sender=SENDER, to="ann@example.org", id="d@x", at=AT, auto="auto-generated")
    assert b"\r" not in raw.replace(b"\r\n", b"")
    letter = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(letter, EmailMessage)
    assert set(letter.keys()) <= HEADERS
    assert (letter["to"], letter["bcc"], len(letter.get_all("subject", []))) == ("ann@example.org", None, 1)
    subject = str(letter["subject"])
    assert is_seen(subject)
    assert "\n" not in subject
    plain, markup = letter.iter_parts()
    text, html = (str(each.get_content()).replace("\r\n", "\n") for each in (plain, markup))
    assert is_seen(text)
    seen = Seen()
    seen.feed(html)
    assert seen.tags <= TAGS
    assert not [name for name in seen.attributes if name.startswith("on") or name in ("src", "action")]
    assert {link.partition("?")[0].rpartition("/")[0] for link in seen.links} <= {
        "https://desk.example/questions"
    }
    assert is_seen("".join(seen.parts))


def is_seen(text: str) -> bool:
    """Whether everything in a text is to be seen; a joiner makes one picture of two."""
    unseen = {each for each in text if unicodedata.category(each) in UNSEEN}
    return unseen <= {"\n", "\u200d"}


@pytest.mark.parametrize("shard", range(4))
def test_a_hostile_text_stays_a_text_in_a_mail(shard: int) -> None:
    assert len(set(TEXTS)) >= 500
    for place in hostile(TEXTS, range(shard, len(TEXTS), 4), 4):
        text, name = TEXTS[place], NAMES[place]
        form = list(forms(text, name))[place // 4 % 4]
        question = a_question(
            form,
            prompt=text,
            asker=name,
            context={name: text, "list": [text]},
            conversation=name,
            recipients=(name, "ann"),
            steps=(Step(timedelta(minutes=1), "escalate", (name,)),),
        )
        for rendered in letters(question, text, name):
            check(rendered)


@pytest.mark.parametrize(
    "prompt",
    [
        "=?utf-8?q?=0D=0ABcc:_eve@evil.example?=",
        "=?utf-8?q?=0D=0A=0D=0A<h1>approved</h1>?=",
        "=?utf-8?b?DQpCY2M6IGV2ZUBldmlsLmV4YW1wbGU=?=",
        "=?us-ascii?q?=0ABcc:_e@e.example?= =?utf-8?q?=E2=80=AE?=",
    ],
)
def test_encoded_words_in_a_subject_are_what_was_written(prompt: str) -> None:
    question = a_question(prompt=prompt)
    first, *others = letters(question, "x", "ann")
    for rendered in (first, *others):
        check(rendered)
    raw = build_mail(first, sender=SENDER, to="ann@example.org", id="d@x", at=AT, auto="auto-generated")
    assert str(email.message_from_bytes(raw, policy=email.policy.default)["subject"]).endswith(prompt)


def test_the_check_finds_what_is_more_than_text() -> None:
    fine = {"subject": "s", "text": "t", "html": "<p>h</p>"}
    check(Rendered(**fine))
    for worse in (
        {"html": f"<script>{MARK}</script>"},
        {"html": '<p onclick="x">h</p>'},
        {"html": '<a href="https://evil.example/x">h</a>'},
        {"html": "<img>"},
        {"text": "t\u202e"},
        {"subject": "s\u200b"},
    ):
        with pytest.raises(AssertionError):
            check(Rendered(**(fine | worse)))
