"""Files in chats: their names and sizes are told, and a form with a file leads to its page."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handraise import Confirm, Field, Form, Question
from handraise.channels.discord.modals import can_be_filled_in
from handraise.channels.email.mail_texts import only_on_the_page
from handraise.channels.message_texts import facts_of
from handraise.channels.slack.modals import can_be_answered as in_slack
from handraise.channels.telegram.messages import can_be_answered as in_telegram
from handraise.forms import AnyForm, File, NotAnAnswer, read_reply
from handraise.model.thread_messages import ThreadMessage
from handraise.presentation.thread_text import thread_text
from handraise.questions import Attachment

AT = datetime(2026, 11, 18, tzinfo=UTC)
FILES = tuple(Attachment(f"{'n' * 190}{place}.pdf", "application/pdf", 1_500, "0" * 64) for place in range(7))


def question(form: AnyForm, **values: object) -> Question:
    return Question(
        id="q",
        workspace="w",
        asker="bot",
        prompt="Look?",
        form=form,
        asked_at=AT,
        **values,  # type: ignore[arg-type]
    )


def test_names_and_sizes_are_told_and_no_message_grows_without_end() -> None:
    [told] = facts_of(question(Confirm(), attachments=FILES))
    assert told.startswith("Files, on the page: nnn")
    assert told.count("(2 kB)") == 5
    assert "2 more are on the page." in told
    assert len(told) < 500


@pytest.mark.parametrize(
    "form", [File(), Form(fields=(Field(name="a", form=File()),))], ids=["alone", "a field"]
)
def test_a_file_is_uploaded_on_the_page(form: AnyForm) -> None:
    asked = question(form)
    assert not can_be_filled_in(asked)
    assert not in_slack(asked)
    assert not in_telegram(asked)
    assert only_on_the_page(asked) is not None
    assert isinstance(read_reply(asked, "receipt.pdf"), NotAnAnswer)


def test_a_reply_names_its_files() -> None:
    """An approval in a chat covers the conversation that is shown there."""
    reply = ThreadMessage(
        number=1,
        kind="replied",
        by="bot",
        at=AT,
        text="This one.",
        attachments=(Attachment("a.pdf", "text/plain", 3, "0" * 64),),
    )
    shown = thread_text(question(Confirm(), thread=1), [reply], room=1_000)
    assert [each.text for each in shown.messages] == ["This one.\na.pdf (3 bytes)"]
