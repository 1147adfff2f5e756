"""Sending back and leaving a question to others, the same in every chat service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from handraise import Approval
from handraise.model.forms import Confirm
from handraise.model.outcomes import Returned
from tests.channels.chat_team import ChatTeam
from tests.channels.test_chat_flow import SERVICES, UNKNOWN

pytestmark = pytest.mark.asyncio(loop_scope="module")

AnyTeam = ChatTeam[Any, Any]
HOSTILE = (
    "Only 30 <!channel> <@U0BOB> @everyone <@1002> **b** [x](https://evil.example) </at> `c` {{DATE(1)}}"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["slack", "teams", "discord", "telegram"])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[AnyTeam]:
    async with SERVICES[request.param]() as team:
        yield team


@pytest.fixture
def team(shared: AnyTeam) -> AnyTeam:
    shared.anew()
    return shared


async def send_back(team: AnyTeam, user: Any, message: Any, reason: str) -> None:
    """Press the button, and say what is to be changed where the service asks for it."""
    if team.channel == "teams":
        asks = await team.peer.press(user, message, "send_back")
        if not isinstance(asks, str):
            await team.peer.press(user, message, "sent_back", card=asks, reason=reason)
        return
    await team.press(user, message, "send_back")
    if team.channel == "telegram":
        found: Any = team
        await team.peer.say(user, reason, to=await found.prompt(message))
    else:
        await team.peer.submit(user, reason=reason)


@pytest.mark.parametrize(
    "form", [Confirm(), Approval.of("refund", {"amount": 300})], ids=lambda each: each.kind
)
async def test_a_question_is_sent_back_and_its_message_says_why(team: AnyTeam, form: Any) -> None:
    question, message = await team.ask("Refund?", form=form)
    await send_back(team, team.people["ann"], message, HOSTILE)
    outcome = await team.outcome(question)
    assert isinstance(outcome, Returned)
    assert (outcome.by, outcome.reason, outcome.channel) == ("ann", HOSTILE, team.channel)
    assert outcome.evidence in team.evidence
    ended = await team.ended(message)
    assert "Sent back by ann" in ended.shown
    assert "Only 30" in ended.shown
    assert ended.pressable == []


async def test_a_reason_that_is_blank_does_not_count(team: AnyTeam) -> None:
    question, message = await team.ask("Refund?", form=Confirm())
    await send_back(team, team.people["ann"], message, " ")
    await team.untouched(question)


async def test_somebody_leaves_a_question_to_the_others(team: AnyTeam) -> None:
    to = ["ann", "bob"] if team.channel == "telegram" else ["group:ops"]
    question, message = await team.ask("Go?", form=Confirm(), recipients=to)
    await team.press(team.people["ann"], message, "aside")
    assert "You are not asked this any more." in await team.told_alone(team.people["ann"])
    now = await team.desk.get(question.id)
    assert [(each.person, each.until, now.outcome) for each in now.aside] == [("ann", None, None)]


async def test_one_who_is_asked_alone_has_nobody_to_leave_it_to(team: AnyTeam) -> None:
    _, message = await team.ask("Go?", form=Confirm())
    assert not {"aside", "Not for me"} & set(message.pressable)


async def test_a_stranger_sends_nothing_back_and_sets_nothing_aside(team: AnyTeam) -> None:
    if team.channel == "telegram":
        questions = [await team.ask("Go?", form=Confirm(), recipients=["ann", "bob"])]
    else:
        questions = [await team.ask("Go?", form=Confirm(), recipients=["group:ops"])]
    for question, message in questions:
        for deed in ("aside", "send_back"):
            team.anew()
            await team.press(team.stranger, message, deed)
            assert UNKNOWN in await team.told_alone(team.stranger)
        await team.untouched(question)


async def test_a_room_of_telegram_has_no_button_for_one_person(team: AnyTeam) -> None:
    _, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    has_button = bool({"aside", "Not for me"} & set(message.pressable))
    assert has_button is (team.channel != "telegram")


async def test_a_typed_reply_sends_back(team: AnyTeam) -> None:
    if team.channel == "discord":  # it does not tell us what people write
        return
    question, message = await team.ask("Refund?", form=Approval.of("refund", {"amount": 300}))
    await team.write(team.people["ann"], message, "Send back: only 30")
    outcome = await team.outcome(question)
    assert isinstance(outcome, Returned)
    assert (outcome.by, outcome.reason) == ("ann", "only 30")


async def test_what_is_of_high_risk_is_sent_back_where_people_sign_in(team: AnyTeam) -> None:
    question, message = await team.ask("Drop it?", form=Approval.of("drop", risk="high"))
    assert not {"send_back", "Send back…", "aside", "Not for me"} & set(message.pressable)
    if team.channel != "discord":
        said = await team.write(team.people["ann"], message, "send back: only one table")
        assert "decide in the inbox" in said
    await team.untouched(question)


async def test_who_is_brought_in_reads_by_whom_and_why(team: AnyTeam) -> None:
    question, first = await team.ask("Go?", form=Confirm())
    await team.desk.bring_in(question.id, ["bob"], by="ann", reason=HOSTILE)
    message = await team.later(question, first)
    assert ("ann has brought you in" in message.shown) is (team.channel in ("slack", "discord"))
    assert {"aside", "Not for me"} & set(message.pressable)
