"""The conversation about an approval by e-mail: what a mail shows, what a reply writes, and what an approval covers."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from handraise import Answered, Approval, Open, Question
from handraise.desks import LocalDesk
from tests.channels.mail_servers import PostOffice, reply_to
from tests.channels.test_email_inbound import (  # noqa: F401 -- the fixtures
    ANN,
    app,
    changes,
    client,
    client_at,
    ctx,
    desk,
    office,
    post,
)

PASSED = "mx.example.com; dmarc=pass header.from=example.org"
CHECKED = pytest.mark.parametrize("changes", [{"email_authserv_id": "mx.example.com"}])
DEPLOY = Approval.of("deploy", {"to": "production"})
BOB = "Bob <bob@example.org>"


async def ask(desk: LocalDesk, **options: Any) -> Question:  # noqa: F811 -- a fixture's
    given: dict[str, Any] = {"form": DEPLOY, "recipients": ["ann"], "replies": "program"}
    return await desk.post("Go?", **(given | options))


async def thread(desk: LocalDesk, question: Question) -> list[tuple[str, str, str, str | None]]:  # noqa: F811
    found = await desk.thread(question.id)
    return [(each.kind, each.by, each.text, each.channel) for each in found]


@CHECKED
async def test_a_reply_asks_the_agent_and_the_next_mail_shows_what_it_replied(
    desk: LocalDesk,  # noqa: F811
    office: PostOffice,  # noqa: F811
    client: httpx2.AsyncClient,  # noqa: F811
) -> None:
    question = await ask(desk)
    first = await office.mail_to(ANN)
    assert "begin your reply with “ask:”" in first.text
    assert "begin your reply with “note:”" in first.text
    await post(client, reply_to(first, "Ask: why\nnow?", Authentication_Results=PASSED))
    assert "The agent was asked." in (await office.mail_to(ANN, 2)).text
    await post(client, reply_to(first, "note: I doubt it", Authentication_Results=PASSED))
    assert "Your note was written." in (await office.mail_to(ANN, 3)).text
    assert await thread(desk, question) == [
        ("asked_back", "ann", "why\nnow?", "email"),
        ("noted", "ann", "I doubt it", "email"),
    ]
    kept = (await desk.history(question.id))[-1].data
    assert kept["evidence"] == "email-sender"
    await desk.reply(question.id, "<b>Green</b>\n-- \nhandraise")
    second = await office.mail_to(ANN, 4)
    assert second.message["subject"].startswith("Reply: ")
    for part in ("│ why\n│ now?", "ann asked the agent:", "A note by ann:", "│ <b>Green</b>\n│ --"):
        assert part in second.text
    assert "&lt;b&gt;Green&lt;/b&gt;" in second.html
    await post(client, reply_to(first, "approve", Authentication_Results=PASSED))
    assert (await desk.get(question.id)).outcome is None
    moved = await office.mail_to(ANN, 5)
    assert "The conversation has moved on. Read it, then decide again." in moved.text
    assert f"https://ask.example.org/questions/{question.id}" in moved.text
    await post(client, reply_to(second, "approve", Authentication_Results=PASSED))
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    answered = (await desk.history(question.id))[-1].data
    assert (answered["seen"], outcome.value["decision"]) == (3, "approve")


async def test_any_other_reply_to_an_approval_decides_and_writes_nothing(
    desk: LocalDesk,  # noqa: F811
    office: PostOffice,  # noqa: F811
    client: httpx2.AsyncClient,  # noqa: F811
) -> None:
    question = await ask(desk, replies=None)
    mail = await office.mail_to(ANN)
    assert "“ask:”" not in mail.text
    await post(client, reply_to(mail, "approve it? why?"))
    told = (await office.mail_to(ANN, 2)).text
    assert "That decides nothing." in told
    assert "“note:”" in told
    await post(client, reply_to(mail, "ask: why?"))
    assert "The agent cannot reply" in (await office.mail_to(ANN, 3)).text
    await post(client, reply_to(mail, "note:"))
    assert "That does not fit" in (await office.mail_to(ANN, 4)).text
    assert await desk.get(question.id) == question


async def test_a_reply_to_a_question_for_a_text_is_still_its_answer(
    desk: LocalDesk,  # noqa: F811
    office: PostOffice,  # noqa: F811
    client: httpx2.AsyncClient,  # noqa: F811
) -> None:
    question = await ask(desk, form=Open())
    await post(client, reply_to(await office.mail_to(ANN), "note: because"))
    outcome = (await desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value == "note: because"


@CHECKED
async def test_nobody_writes_with_the_address_of_another(
    desk: LocalDesk,  # noqa: F811
    office: PostOffice,  # noqa: F811
    client: httpx2.AsyncClient,  # noqa: F811
) -> None:
    question = await ask(desk)
    mail = await office.mail_to(ANN)
    for letter in (
        reply_to(mail, "note: forged", sender=BOB, Authentication_Results=PASSED),
        reply_to(mail, "note: forged", sender="Eve <eve@example.org>", Authentication_Results=PASSED),
        reply_to(mail, "note: forged", Authentication_Results="mx.example.com; dmarc=fail"),
    ):
        assert (await post(client, letter)).status_code == 204
    assert await desk.get(question.id) == question


@CHECKED
async def test_a_conversation_that_does_not_fit_into_a_mail_is_decided_on_the_page(
    desk: LocalDesk,  # noqa: F811
    office: PostOffice,  # noqa: F811
    client: httpx2.AsyncClient,  # noqa: F811
) -> None:
    question = await ask(desk)
    await office.mail_to(ANN)
    for number in range(6):
        await desk.ask_back(question.id, f"{number} " + "x" * 900, by="ann")
    await desk.reply(question.id, "Because")
    mail = await office.mail_to(ANN, 2)
    assert "The conversation has 7 messages" in mail.text
    assert "The conversation is too long to be shown here in full" in mail.text
    await post(client, reply_to(mail, "approve", Authentication_Results=PASSED))
    assert "has moved on" in (await office.mail_to(ANN, 3)).text
    assert (await desk.get(question.id)).outcome is None
