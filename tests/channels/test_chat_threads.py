"""The conversation about a question in a chat, the same in every service: what is shown, written and approved there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from handraise import Approval, Responder
from handraise.model.forms import Open
from handraise.model.outcomes import Answered
from handraise.model.questions import Question
from tests.channels.chat_team import ChatTeam
from tests.channels.test_chat_flow import SERVICES, UNKNOWN

pytestmark = pytest.mark.asyncio(loop_scope="module")

AnyTeam = ChatTeam[Any, Any]
DEPLOY = Approval.of("deploy", {"to": "production"})
BOB = Responder("bob", frozenset({"ops"}))
MOVED = "The conversation has moved on. Read it, then decide again."
HOSTILE = "<!channel> *bold* [x](https://evil.example) <img src=x>\u202e\n@everyone"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVICES)
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[AnyTeam]:
    async with SERVICES[request.param]() as team:
        yield team


@pytest.fixture
def team(shared: AnyTeam) -> AnyTeam:
    shared.anew()
    return shared


async def asked(team: AnyTeam, **options: Any) -> tuple[Question, Any]:
    return await team.ask("Go?", **({"form": DEPLOY, "replies": "program"} | options))


async def thread(team: AnyTeam, question: Question) -> list[tuple[str, str, str, str | None]]:
    found = await team.desk.thread(question.id)
    return [(each.kind, each.by, each.text, each.channel) for each in found]


async def test_a_message_shows_the_conversation_and_its_approval_covers_it(team: AnyTeam) -> None:
    question, old = await asked(team, recipients=["group:ops"])
    await team.desk.ask_back(question.id, "Why now?", by=BOB)
    await team.desk.note(question.id, HOSTILE, by=BOB)
    noted = await team.later(question, old)
    assert "Somebody has written a note about this" in noted.shown or "Note:" in noted.shown
    assert "bob" in noted.shown
    assert "Why now?" in noted.shown
    assert "Waiting for the agent's reply." in noted.shown
    assert "\u202e" not in noted.shown
    await team.desk.reply(question.id, "The tests are green")
    replied = await team.later(question, noted)
    for part in ("bob", "Why now?", "@everyone", "The agent replied", "The tests are green"):
        assert part in replied.shown
    assert "Waiting for" not in replied.shown
    await team.approve(team.people["ann"], replied)
    assert (await team.value(question))["decision"] == "approve"
    answered = [each for each in await team.desk.history(question.id) if each.kind.value == "answered"]
    assert answered[-1].data["seen"] == 3


async def test_an_approval_of_an_older_message_is_refused_kindly_and_the_message_is_drawn_again(
    team: AnyTeam,
) -> None:
    question, message = await asked(team)
    await team.desk.ask_back(question.id, "Why now?", by="ann")
    await team.desk.take(question.id, by="ann")
    assert MOVED in await team.approve(team.people["ann"], message)
    assert (await team.desk.get(question.id)).outcome is None
    if team.draws_again:
        now = await team.find(
            lambda each: team.name_of(each) == team.name_of(message) and "Why now?" in each.shown
        )
        assert "ann is on this" in now.shown.replace("\\", "")
        await team.approve(team.people["ann"], now)
        assert (await team.value(question))["decision"] == "approve"


async def test_a_denial_needs_no_conversation(team: AnyTeam) -> None:
    question, message = await asked(team)
    await team.desk.ask_back(question.id, "Why now?", by="ann")
    await team.press(team.people["ann"], message, "deny")
    assert (await team.value(question))["decision"] == "deny"


async def test_what_somebody_writes_about_an_approval_is_for_the_agent_or_for_colleagues(
    team: AnyTeam,
) -> None:
    question, message = await asked(team)
    ann = team.people["ann"]
    offer = await team.offer(ann, message, "why now & not <later>?")
    assert await thread(team, question) == []
    assert "The agent was asked" in await team.choose(ann, offer, "asked_back")
    offer = await team.offer(ann, message, "I doubt it")
    assert "Your note was written" in await team.choose(ann, offer, "noted")
    assert await thread(team, question) == [
        ("asked_back", "ann", "why now & not <later>?", team.channel),
        ("noted", "ann", "I doubt it", team.channel),
    ]
    kept = (await team.desk.history(question.id))[-1].data
    assert kept["evidence"] in team.evidence
    assert (await team.desk.get(question.id)).outcome is None


async def test_if_nobody_would_reply_only_a_note_is_offered(team: AnyTeam) -> None:
    question, message = await asked(team, replies=None)
    offer = await team.offer(team.people["ann"], message, "why now?")
    assert team.offered(offer) == ["noted"]
    await team.choose(team.people["ann"], offer, "noted")
    assert await thread(team, question) == [("noted", "ann", "why now?", team.channel)]


async def test_a_reply_to_a_question_for_a_text_is_still_its_answer(team: AnyTeam) -> None:
    if not team.reads:
        return
    question, message = await team.ask("Why?", form=Open(), replies="program")
    await team.write(team.people["ann"], message, "note: because")
    assert await team.value(question) == "note: because"


async def test_nobody_else_writes_and_nobody_else_approves(team: AnyTeam) -> None:
    question, message = await asked(team)
    offer = await team.offer(team.people["ann"], message, "why now?")
    for who in (team.stranger, team.people["bob"]):
        told = await team.choose(who, offer, "noted")
        assert "I cannot" in told or "somebody else" in told
        assert UNKNOWN in await team.approve(who, message)
    assert await thread(team, question) == []
    assert (await team.desk.get(question.id)).outcome is None


async def test_a_typed_approval_covers_what_its_message_showed(team: AnyTeam) -> None:
    if not team.reads:
        return
    question, message = await asked(team)
    await team.desk.ask_back(question.id, "Why now?", by="ann")
    assert MOVED in await team.write(team.people["ann"], message, "approve")
    await team.desk.reply(question.id, "The tests are green")
    replied = await team.later(question, message)
    await team.write(team.people["ann"], replied, "approve")
    outcome = await team.outcome(question)
    assert isinstance(outcome, Answered)
    assert outcome.value["decision"] == "approve"


async def test_a_conversation_that_does_not_fit_is_decided_in_the_inbox(team: AnyTeam) -> None:
    question, message = await asked(team)
    for number in range(9):
        await team.desk.ask_back(question.id, f"{number} " + "x" * 900, by="ann")
    await team.desk.reply(question.id, "Because")
    long = await team.later(question, message)
    assert "The conversation has 10 messages" in long.shown
    assert "Because" in long.shown
    assert "The conversation is too long to be shown here in full" in long.shown
    assert not {"approve", "?approve", "Approve", "Approve…"} & set(long.pressable)


async def test_a_message_is_written_once_however_often_its_button_is_pressed(team: AnyTeam) -> None:
    if not team.reads:
        return
    question, message = await asked(team)
    offer = await team.offer(team.people["ann"], message, "why now?")
    for kind in ("asked_back", "asked_back", "noted"):
        await team.choose(team.people["ann"], offer, kind)
    assert [kind for kind, *_ in await thread(team, question)] == ["asked_back"]


@pytest.mark.parametrize("shared", ["slack"], indirect=True)
async def test_in_slack_the_button_of_one_question_writes_about_no_other(team: AnyTeam) -> None:
    mine, message = await asked(team)
    other, _ = await asked(team, recipients=["bob"])
    offer = await team.offer(team.people["ann"], message, "why now?")
    pressed = team.peer.interaction(team.people["ann"], offer, "noted")
    [button] = pressed["actions"]
    for value in (
        button["value"].replace(mine.id, other.id),
        button["value"].replace("U0ANN", "U0BOB"),
        button["value"].replace('"text"', '"texts"'),
        button["value"].replace("default", "elsewhere"),
    ):
        button["value"] = value
        assert (await team.peer.send(pressed)).status == 200
    for question in (mine, other):
        assert await thread(team, question) == []


@pytest.mark.parametrize("shared", ["teams"], indirect=True)
async def test_in_teams_a_new_card_is_shown_and_nobody_raises_what_a_card_has_shown(team: AnyTeam) -> None:
    ann = team.people["ann"]
    question, message = await asked(team)
    other, _ = await asked(team)
    for each in (question, other):
        await team.desk.ask_back(each.id, "Why now?", by="ann")
    anew = await team.peer.press(ann, message, "approve")
    sure = await team.peer.press(ann, message, "approve", card=anew)
    pressed = team.peer.interaction(ann, message, "approved", card=sure)
    data = pressed["value"]["action"]["data"]
    kept = data["seen"]
    await team.desk.ask_back(question.id, "And then?", by="ann")
    for seen in (kept, kept.replace("1.", "2."), "2", 2, True, None, "2.", "x", "٢.x", ["2"]):
        data["seen"] = seen
        pressed["id"] = f"f:{seen}"
        status, said = await team.peer.send(pressed)
        assert (status, "moved on" in str(said)) == (200, True)
    # What was made for one question covers no other.
    data |= {"seen": kept, "q": [other.workspace, other.id], "digest": DEPLOY.digest}
    pressed["id"] = "f:other"
    status, said = await team.peer.send(pressed)
    assert (status, "moved on" in str(said)) == (200, True)
    for each in (question, other):
        assert (await team.desk.get(each.id)).outcome is None
    now = await team.peer.press(ann, message, "approve")
    sure = await team.peer.press(ann, message, "approve", card=now)
    await team.peer.press(ann, message, "approved", card=sure)
    assert (await team.value(question))["decision"] == "approve"
