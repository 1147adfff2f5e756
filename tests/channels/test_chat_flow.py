"""What people do in a chat, the same in every service: who may answer, what they are told, and what is not decided there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from handraise import AlreadySettled, Approval
from handraise.channels.chat_flow import ChatFlow, decided, pressed, submitted
from handraise.channels.payloads import InvalidPayload
from handraise.model.deliveries import DeliveryStatus
from handraise.model.forms import Choice, Confirm
from handraise.model.outcomes import Answered
from handraise.model.provenance import Provenance
from handraise.model.questions import Question
from tests.channels import discord_peer, discord_server, slack_server, teams_server, telegram_server
from tests.channels.chat_team import ChatTeam
from tests.tiers import sized

pytestmark = pytest.mark.asyncio(loop_scope="module")

AnyTeam = ChatTeam[Any, Any]
UNKNOWN = "I cannot take an answer to this from you. Open your inbox to see what waits for you."
SIGN_IN = "An action of high risk is decided in the inbox, where people sign in. Open it there."
DESK = "decide in the inbox or in the terminal"


@asynccontextmanager
async def discord() -> AsyncIterator[AnyTeam]:
    async with discord_peer.open_peer() as peer, discord_server.open_team(peer) as team:
        yield team


SERVICES: dict[str, Callable[[], AbstractAsyncContextManager[AnyTeam]]] = {
    "slack": slack_server.open_team,
    "slack socket": lambda: slack_server.open_team("socket"),
    "teams": teams_server.open_office,
    "discord": discord,
    "telegram": telegram_server.open_team,
    "telegram poll": lambda: telegram_server.open_team("poll"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SERVICES)
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[AnyTeam]:
    async with SERVICES[request.param]() as team:
        yield team


@pytest.fixture
def team(shared: AnyTeam) -> AnyTeam:
    shared.anew()
    return shared


async def test_a_stranger_learns_and_does_nothing(team: AnyTeam) -> None:
    room, shown = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    mine, hers = await team.ask("Mine?", form=Confirm())
    for who, message in ((team.stranger, shown), (team.stranger, hers), (team.people["bob"], hers)):
        for deed in ("yes", "decline"):
            team.anew()
            await team.press(who, message, deed)
            assert UNKNOWN in await team.told_alone(who)
    for question in (room, mine):
        await team.untouched(question)


async def test_whoever_is_not_known_is_told_in_the_language_of_the_server() -> None:
    async with telegram_server.open_team("poll", language="de") as team:
        ann = team.people["ann"]
        await team.ctx.directory.set_preferences("default", "ann", language="en", time_zone=None)
        _, message = await team.ask("Go?", form=Confirm())
        await team.peer.say(ann, "perhaps", to=message)
        assert "I cannot take that as an answer" in (await team.prompt(message)).shown
        await team.peer.say(team.stranger, "/start")
        assert f"Ihre Telegram-ID ist {team.stranger}." in await team.told_in(team.stranger)
    async with slack_server.open_team(language="de") as slack:
        _, asked = await slack.ask("Go?", form=Confirm())
        await slack.peer.say(slack.people["ann"], asked.channel, "yes")
        await slack.peer.message(lambda each: "zu welcher Frage das gehört" in each.shown)
    async with discord_peer.open_peer() as peer, discord_server.open_team(peer, language="de") as guild:
        _, shown = await guild.ask("Go?", form=Confirm())
        payload = peer.interaction(guild.stranger, shown, "yes")
        await peer.send(guild.stranger, shown, payload | {"type": 99})
        assert "zu welcher Frage das gehört" in guild.told(guild.stranger)


async def test_a_room_answers_and_says_who_did(team: AnyTeam) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    await team.press(team.people["bob"], message, "yes")
    outcome = await team.outcome(question)
    assert isinstance(outcome, Answered)
    assert (outcome.by, outcome.value) == ("bob", True)
    assert "Answered by bob" in (await team.ended(message)).shown


async def test_a_press_on_a_dead_message_says_so_kindly_and_redraws_it(team: AnyTeam) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"])
    await team.press(team.people["bob"], message, "yes")
    await team.ended(message)
    await team.delivered(question, DeliveryStatus.SENT)
    for deed in ("no", "decline"):
        # Ann's client still shows the old message; and so does the service, say.
        team.put_back(message)
        await team.press(team.people["ann"], message, deed)
        assert "has already been answered" in await team.told_alone(team.people["ann"])
        if team.redraws:
            assert (await team.ended(message)).pressable == []
    outcome = (await team.desk.get(question.id)).outcome
    assert isinstance(outcome, Answered)
    assert outcome.value is True


async def test_votes_are_told_and_the_message_stays_until_enough_agree(team: AnyTeam) -> None:
    question, message = await team.ask("Go?", form=Confirm(), recipients=["group:ops"], quorum=2)
    assert "2 people must agree" in message.shown
    await team.press(team.people["ann"], message, "yes")
    assert "Your vote counts" in await team.told_alone(team.people["ann"])
    assert (await team.desk.get(question.id)).outcome is None
    now = await team.find(lambda each: team.name_of(each) == team.name_of(message))
    assert now.pressable == message.pressable
    await team.press(team.people["bob"], message, "yes")
    assert (await team.outcome(question)).status == "answered"


@pytest.mark.parametrize("shared", ["slack", "discord", "telegram"], indirect=True)
async def test_a_chat_and_the_desk_at_the_same_moment_have_one_winner(team: AnyTeam) -> None:
    winners = set()
    for turn in range(0, 40, sized(gate=3, nightly=1)):
        question, message = await team.ask(f"Go {turn}?", form=Confirm(), recipients=["ann", "bob"])
        _, his = await asyncio.gather(
            team.press(team.people["ann"], message, "yes"), answer_at_the_desk(team, question, turns=5 * turn)
        )
        outcome = await team.outcome(question)
        assert isinstance(outcome, Answered)
        assert (outcome.by, outcome.value) == (("bob", False) if his else ("ann", True))
        assert f"Answered by {outcome.by}" in (await team.ended(message)).shown
        kinds = [each.kind.value for each in await team.desk.history(question.id)]
        assert kinds.count("answered") == 1
        winners.add(outcome.by)
    assert winners == {"ann", "bob"}


async def answer_at_the_desk(team: AnyTeam, question: Question, *, turns: int) -> bool:
    """Whether bob was first, after so many turns of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)
    try:
        await team.desk.answer(question.id, False, by="bob", provenance=Provenance(channel="web"))
    except AlreadySettled:
        return False
    return True


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (Approval.of("drop", {"table": "users"}, risk="high"), SIGN_IN),
        (Approval.of("write", {"text": "line\n" * 3_000}), "Open it in the inbox to answer."),
    ],
    ids=["high risk", "too large"],
)
async def test_what_is_not_for_a_chat_is_decided_in_the_inbox(
    team: AnyTeam, form: Approval, why: str
) -> None:
    question, message = await team.ask("Go?", form=form)
    left = [each for each in team.not_here if form.risk != "high" or each == "Decline…"]
    assert message.pressable == left
    assert "decided" in message.shown
    assert form.risk != "high" or ("High risk" in message.shown and '"users"' in message.shown)
    if team.reads:
        assert why in await team.write(team.people["ann"], message, "approve")
    await team.untouched(question)


@pytest.mark.parametrize("shared", [each for each in SERVICES if each != "discord"], indirect=True)
async def test_the_desk_refuses_what_is_of_high_risk_whatever_a_chat_lets_through(
    team: AnyTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, message = await team.ask("Drop it?", form=Approval.of("drop", risk="high"))
    monkeypatch.setattr(ChatFlow, "why_not_here", lambda *_: None)
    assert DESK in await team.write(team.people["ann"], message, "approve")
    assert (await team.desk.get(question.id)).outcome is None


@pytest.mark.parametrize("digest", [None, 7, True, ["x"], {}])
async def test_a_decision_without_its_action_is_none(digest: object) -> None:
    form = Approval.of("deploy")
    for decision in ("approve", "deny"):
        with pytest.raises(InvalidPayload):
            pressed(form, decision, digest=digest)
    with pytest.raises(InvalidPayload):
        submitted(form, "deny", read_answer=lambda: None, reason="no", digest=digest)
    with pytest.raises(InvalidPayload):
        decided("approve", digest)


@pytest.mark.parametrize(
    ("form", "verb", "number"),
    [
        (Confirm(), "approve", None),
        (Confirm(), "option", 0),
        (Choice.of("a", "b"), "yes", None),
        *(
            (Choice.of("a", "b"), "option", number)
            for number in (None, 2, -1, "2", "-1", "x", "", "٠", True, [0], "1" * 99)
        ),
        (Approval.of("deploy"), "yes", None),
        (Approval.of("deploy"), "answer", None),
        (Confirm(), "", None),
    ],
)
async def test_a_button_that_a_question_does_not_have_answers_nothing(
    form: Any, verb: str, number: object
) -> None:
    with pytest.raises(InvalidPayload):
        pressed(form, verb, number=number, digest="0" * 64)
    if verb != "answer" or isinstance(form, Approval):
        with pytest.raises(InvalidPayload):
            submitted(form, verb, read_answer=lambda: True, reason=None, digest="0" * 64)
