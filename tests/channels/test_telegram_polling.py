"""Asking Telegram for what people did: several servers, restarts, trouble on the way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handraise import Approval
from handraise.channels import Replies
from handraise.channels.telegram import polling
from handraise.channels.telegram.interactions import InteractionHandler
from handraise.model.errors import StoreUnavailable
from handraise.model.forms import Confirm
from tests.channels.telegram_peer import SECRET, Fault, TelegramPeer, open_peer
from tests.channels.telegram_server import ANN, Transport, open_server_for, open_team
from tests.samples import ON_DISK
from tests.tiers import sized

on_disk = pytest.mark.parametrize("address", ON_DISK, indirect=True)
each_way = pytest.mark.parametrize("transport", ["webhook", "poll"])


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(polling, "_STAND_BY", 0.02)


def looks(peer: TelegramPeer) -> int:
    """How often a server has looked without waiting."""
    return sum(1 for method, body in peer.calls if method == "getUpdates" and not body["timeout"])


@on_disk
@each_way
async def test_a_button_works_after_a_restart(address: str, transport: Transport) -> None:
    async with open_peer() as peer:
        async with open_server_for(peer, transport, url=address) as before:
            question, message = await before.ask("Go?", form=Confirm())
            action, approval = await before.ask("Deploy?", form=Approval.of("deploy", {"version": 1}))
            typed, asked = await before.ask("Why?")
            await peer.press(ANN, asked, "Answer…")
            prompt = await before.prompt(asked)
            await peer.press(ANN, approval, "Approve…")
            sure = await before.now(approval)
        async with open_server_for(peer, transport, url=address) as after:
            await peer.press(ANN, message, "Yes")
            assert await after.value(question) is True
            await peer.press(ANN, sure, "Yes, approve")
            assert (await after.value(action))["decision"] == "approve"
            await peer.say(ANN, "because", to=prompt)
            assert await after.value(typed) == "because"
            for each in (message, approval, asked):
                assert (await after.ended(each)).pressable == []


@on_disk
async def test_what_is_pressed_while_no_server_runs_is_not_lost(address: str) -> None:
    async with open_peer() as peer:
        async with open_server_for(peer, "poll", url=address) as before:
            question, message = await before.ask("Go?", form=Confirm())
        peer.put(peer.pressing(ANN, message, "Yes"))
        async with open_server_for(peer, "poll", url=address) as after:
            assert await after.value(question) is True
            await peer.until(lambda: not peer.waiting)


@on_disk
async def test_of_two_servers_one_asks_and_the_other_takes_over(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_peer() as peer, open_server_for(peer, "poll", url=address) as second:
        await peer.until(lambda: any(method == "getUpdates" for method, _ in peer.calls))
        async with open_server_for(peer, "poll", url=address) as first:
            await peer.until(lambda: "conflict" in peer.polls)
            await peer.until(lambda: looks(peer) > 5)
            assert peer.polls.count("conflict") == 1, "whoever stands by ended the other's poll"
            question, message = await first.ask("Go?", form=Confirm())
            update = peer.pressing(ANN, message, "Yes")
            await peer.send(update)
            assert await second.value(question) is True
        question, message = await second.ask("Go on?", form=Confirm())
        await peer.press(ANN, message, "No")
        assert await second.value(question) is False
        kinds = [each.kind.value for each in await second.desk.history(question.id)]
        assert kinds == ["asked", "answered"]
    said = [each for each in caplog.records if "channels" in each.name and each.levelno > logging.INFO]
    assert [each.getMessage() for each in said] == []


async def test_servers_that_get_the_same_updates_answer_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst that could be: they take turns at every moment, and get the same updates."""
    monkeypatch.setattr(polling, "_STAND_BY", 0.0)
    monkeypatch.setattr(polling, "_MOST_LOOKS", 1)
    url = f"sqlite:///{tmp_path / 'questions.db'}"
    async with (
        open_peer() as peer,
        open_server_for(peer, "poll", url=url) as one,
        open_server_for(peer, "poll", url=url),
        open_server_for(peer, "poll", url=url),
    ):
        asked = [await one.ask(f"Go {turn}?", form=Confirm()) for turn in range(sized(gate=3, nightly=8))]
        await asyncio.gather(*(peer.press(ANN, message, "Yes") for _, message in asked))
        for question, _ in asked:
            assert await one.value(question) is True
            kinds = [each.kind.value for each in await one.desk.history(question.id)]
            assert kinds == ["asked", "answered"]
    assert peer.polls.count("conflict") > 1


async def test_what_one_person_did_is_done_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Replies.take

    async def slow_to_agree(self: Replies, reply: Any) -> Any:
        for _ in range(500 if reply.value is True else 0):
            await asyncio.sleep(0)
        return await take(self, reply)

    monkeypatch.setattr(Replies, "take", slow_to_agree)
    async with open_team("poll") as team:
        asked = [await team.ask(f"Go {turn}?", form=Confirm()) for turn in range(5)]
        # While nobody asks, they lie there, and are fetched together.
        for update in [team.peer.pressing(ANN, each, label) for _, each in asked for label in ("Yes", "No")]:
            team.peer.lay_by(update)
        team.peer.end_polls()
        assert [await team.value(question) for question, _ in asked] == [True] * 5
        await team.peer.until(lambda: not team.peer.waiting)


async def test_what_could_not_be_done_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_team("poll") as team:
        question, message = await team.ask("Go?", form=Confirm())
        failing = iter([StoreUnavailable("away"), StoreUnavailable("away")])
        take = Replies.take

        async def sometimes(self: Replies, reply: Any) -> Any:
            for error in failing:
                raise error
            return await take(self, reply)

        monkeypatch.setattr(Replies, "take", sometimes)
        await team.peer.press(ANN, message, "Yes")
        assert await team.value(question) is True
        assert list(failing) == []


async def test_whatever_is_in_one_update_the_next_counts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_team("poll") as team:
        question, message = await team.ask("Go?", form=Confirm())
        written = InteractionHandler._handle_message  # noqa: SLF001 -- to break it

        async def broken(self: InteractionHandler, what: Any, *rest: Any) -> None:
            if what.get("text") == "boom":
                raise ZeroDivisionError("with what somebody wrote")
            await written(self, what, *rest)

        monkeypatch.setattr(InteractionHandler, "_handle_message", broken)
        team.peer.put({"update_id": team.peer.update_id(), "callback_query": {"id": 7}})
        await team.peer.say(ANN, "boom", to=message)
        await team.peer.say(ANN, "yes", to=message)
        assert await team.value(question) is True
    assert "could not be done: ZeroDivisionError" in caplog.text
    assert "made no sense" in caplog.text
    assert "with what somebody wrote" not in caplog.text


async def test_trouble_at_telegram_is_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    async with open_peer() as peer:
        faults = [
            Fault(502),
            Fault(429, "Too Many Requests: retry after 0", {"retry_after": 0}),
            Fault(401, "Unauthorized"),
            Fault(200),
        ]
        peer.fail("getUpdates", *faults)
        async with open_server_for(peer, "poll") as team:
            question, message = await team.ask("Go?", form=Confirm())
            await peer.press(ANN, message, "Yes")
            assert await team.value(question) is True
    assert caplog.text.count("Telegram gives no updates") == 4


async def test_a_webhook_of_the_bot_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(polling, "_LONGEST_PAUSE", 0.01)
    async with open_peer() as peer:
        peer.webhook = {"url": "https://elsewhere.example", "secret_token": SECRET}
        async with open_server_for(peer, "poll") as team:
            question, message = await team.ask("Go?", form=Confirm())
            with until_logged(caplog, "HANDRAISE_TELEGRAM_WEBHOOK_SECRET") as logged:
                await asyncio.wait_for(logged.wait(), 10)
            peer.webhook = None
            await peer.press(ANN, message, "Yes")
            assert await team.value(question) is True


@contextmanager
def until_logged(caplog: pytest.LogCaptureFixture, text: str) -> Iterator[asyncio.Event]:
    """An event that is set once a line with this text is logged, or has been."""
    seen = asyncio.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if text in record.getMessage():
                seen.set()

    watch = Watch()
    logging.getLogger().addHandler(watch)
    if text in caplog.text:
        seen.set()
    try:
        yield seen
    finally:
        logging.getLogger().removeHandler(watch)


@each_way
async def test_a_workspace_with_a_long_name_has_its_place_behind_the_link(transport: Transport) -> None:
    async with open_team(transport, workspace="名" * 60) as team:
        question, message = await team.ask("Go?", form=Confirm())
        assert all(len(each["callback_data"]) < 20 for each in message.buttons)
        gone = {"message_id": message.id, "chat": {"id": ANN, "type": "private"}, "date": 0}
        [yes, *_] = message.buttons
        await team.peer.send(team.peer.query(ANN, gone, yes["callback_data"]))
        assert "I cannot tell which question" in team.toast(ANN)
        await team.peer.press(ANN, message, "Yes")
        assert await team.value(question) is True


async def test_a_message_that_telegram_has_forgotten_can_be_pressed() -> None:
    async with open_team() as team:
        question, message = await team.ask("Go?", form=Confirm())
        gone = {"message_id": message.id, "chat": {"id": ANN, "type": "private"}, "date": 0}
        [yes, *_] = message.buttons
        assert len(yes["callback_data"]) <= 64
        await team.peer.send(team.peer.query(ANN, gone, yes["callback_data"]))
        assert await team.value(question) is True


async def test_where_the_link_is_written_out_a_reply_finds_its_question() -> None:
    async with open_team("poll", public_url="http://desk:8765") as team:
        question, message = await team.ask("Why?")
        assert f"http://desk:8765/questions/{question.id}" in message.text
        await team.peer.press(ANN, message, "Answer…")
        await team.peer.say(ANN, "because", to=await team.prompt(message))
        assert await team.value(question) == "because"
        ended = await team.ended(message)
        await team.peer.say(ANN, "late", to=ended)
        assert "You have answered this already" in await team.told(ended)
