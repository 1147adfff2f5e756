"""A channel of one's own: sixty lines that keep the contract, and the doors through which a server takes it."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pydantic
import pytest

from handraise import Answered
from handraise.channels.inbound_replies import Replies
from handraise.desk.dispatcher import run_dispatcher
from handraise.model.deliveries import Address, Delivery, DeliveryStatus
from handraise.model.json_values import Json
from handraise.ports.channel import Channel, NotSent
from handraise.server import ServerContext, ServerSettings, open_server
from handraise.testing.contract.channel import AT, ChannelContract, a_question, settled
from support.webhook_receiver import Says
from tests.channels.matrix_peer import TOKEN, Homeserver, open_homeserver
from tests.samples import ON_DISK

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "matrix_channel.py"
PAGE = ROOT / "docs" / "how-to" / "write-a-channel.md"
ROOM, ELSEWHERE = "!ops/room:example.org", "!gone:example.org"
WITHIN = 10.0
NOBODY = Replies(None, None, None)  # type: ignore[arg-type]  # for tests in which nothing comes in


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))


def open_matrix(replies: Replies) -> AbstractAsyncContextManager[Channel]:
    opened: AbstractAsyncContextManager[Channel] = importlib.import_module("matrix_channel").open_matrix(
        replies
    )
    return opened


@pytest.fixture
async def homeserver(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Homeserver]:
    async with open_homeserver(ROOM) as homeserver:
        monkeypatch.setenv("MATRIX_URL", homeserver.url)
        monkeypatch.setenv("MATRIX_TOKEN", TOKEN)
        yield homeserver


class TestContract(ChannelContract):
    unsafe: ClassVar = ()

    @pytest.fixture
    def peer(self, homeserver: Homeserver) -> Homeserver:
        return homeserver

    @pytest.fixture
    async def channel(self, homeserver: Homeserver) -> AsyncIterator[Channel]:
        del homeserver
        async with open_matrix(NOBODY) as channel:
            yield channel

    @pytest.fixture
    def to(self) -> Json:
        return {"room": ROOM}

    @pytest.fixture
    def dead(self, homeserver: Homeserver) -> Json:
        homeserver.dead.add(ELSEWHERE)
        return {"room": ELSEWHERE}

    async def test_a_second_copy_is_not_said_twice_and_the_end_takes_its_place(
        self, channel: Channel, homeserver: Homeserver, to: Json
    ) -> None:
        question = a_question()
        message = self.message(channel, to, question)
        receipt = await channel.send(message)
        assert await channel.send(message) == receipt
        ended = settled(question, Answered(value=True, at=AT, by="ann"))
        for _ in range(2):
            await channel.update(self.message(channel, to, ended), receipt)
        first, edit = homeserver.events.values()
        assert first["edited"] == edit["body"] == "Which strategy for 1.2.3?\nAnswered by ann:\nYes"

    @pytest.mark.parametrize(
        ("status", "again"), [(403, False), (404, False), (401, True), (429, True), (502, True)]
    )
    async def test_what_the_homeserver_says_decides_whether_it_is_tried_again(
        self, *, channel: Channel, homeserver: Homeserver, to: Json, status: int, again: bool
    ) -> None:
        homeserver.failing.append(Says(status, body=b"<html>"))
        with pytest.raises(NotSent) as failed:
            await channel.send(self.message(channel, to, a_question()))
        assert failed.value.again is again
        assert TOKEN not in str(failed.value)


def test_it_is_no_longer_than_it_says_and_the_page_shows_it_as_it_is() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert f"# matrix_channel.py\n{text}" in blocks


async def told(ctx: ServerContext, homeserver: Homeserver) -> None:
    """A question goes into the room, and its end too."""
    await ctx.outbox.put_address(
        Address(workspace="default", recipient="ann", channel="matrix", id="1", to={"room": ROOM})
    )
    question = await ctx.desk.post("Which strategy?", choices=["a", "b"], recipients=["ann"])
    await until(lambda: len(homeserver.events) == 1)
    [event] = homeserver.events.values()
    assert event["body"] == (
        f"agent asks you to choose one:\nWhich strategy?\n{ctx.settings.base_url}/questions/{question.id}"
    )
    await ctx.desk.answer(question.id, "b", by="ann")
    await until(lambda: event["edited"] is not None)
    assert event["edited"] == "Which strategy?\nAnswered by ann:\nb"
    async with asyncio.timeout(WITHIN):
        while [each.status for each in await ctx.outbox.deliveries(question.ref)] != [DeliveryStatus.UPDATED]:
            await asyncio.sleep(0.01)


async def until(done: Any) -> None:
    async with asyncio.timeout(WITHIN):
        while not done():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("address", ON_DISK, indirect=True)
async def test_a_server_opens_what_the_setting_names(empty_address: str, homeserver: Homeserver) -> None:
    settings = ServerSettings(url=empty_address, poll_interval=0.05, channels=" matrix_channel:open_matrix ,")
    async with open_server(settings) as ctx:
        assert type(ctx.channels["matrix"]).__module__ == "matrix_channel"
        await told(ctx, homeserver)


async def test_a_program_hands_over_its_own(homeserver: Homeserver) -> None:
    async with open_server(ServerSettings(url="memory:", poll_interval=0.05), channels=[open_matrix]) as ctx:
        await told(ctx, homeserver)


async def test_a_dispatcher_takes_it_as_it_takes_ours(homeserver: Homeserver) -> None:
    async def link_to(delivery: Delivery) -> str:
        return f"http://127.0.0.1:8765/questions/{delivery.question_id}"

    async with (
        open_server(ServerSettings(url="memory:", poll_interval=0.05)) as ctx,
        open_matrix(NOBODY) as channel,
        run_dispatcher(ctx.engine, ctx.outbox, ctx.directory, [channel], link_to=link_to),
    ):
        await told(ctx, homeserver)


async def test_it_gets_the_replies_and_is_closed_with_the_house(homeserver: Homeserver) -> None:
    given: list[Replies] = []

    class Opening(nullcontext[Channel]):
        closed = False

        async def __aexit__(self, *_: object) -> None:
            self.closed = True

    async with open_matrix(NOBODY) as channel:
        opening = Opening(channel)

        def opener(replies: Replies) -> AbstractAsyncContextManager[Channel]:
            given.append(replies)
            return opening

        async with open_server(ServerSettings(url="memory:"), channels=[opener]) as ctx:
            assert ctx.channels == {"matrix": channel}
            assert not opening.closed
        assert opening.closed
    assert isinstance(given[0], Replies)
    assert homeserver.events == {}


async def test_two_channels_of_one_name_are_refused(homeserver: Homeserver) -> None:
    del homeserver
    settings = ServerSettings(url="memory:", channels="matrix_channel:open_matrix")
    with pytest.raises(ValueError, match="same name"):
        async with open_server(settings, channels=[open_matrix]):
            pass


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("matrix_channel", "expected my_module:open_mine"),
        ("a b:c", "expected my_module:open_mine"),
        ("../x:open", "expected my_module:open_mine"),
        ("no_such_module:open_mine", "there is no module no_such_module on the path; PYTHONPATH=."),
        ("no_such_package.module:open_mine", "there is no module no_such_package.module on the path"),
    ],
)
def test_what_cannot_be_opened_is_said_before_anything_starts(text: str, why: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=re.escape(why)):
        ServerSettings(url="memory:", channels=text)


@pytest.mark.slow("starts a process; the setting is refused in the gate without one")
def test_the_command_says_it_in_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "handraise", "serve"],
        env={**os.environ, "HANDRAISE_CHANNELS": "no_such_module:open_mine", "HANDRAISE_URL": "memory:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 78
    assert done.stderr.strip() == (
        "HANDRAISE_CHANNELS cannot be used: there is no module no_such_module on the path; "
        "PYTHONPATH=. puts this folder there."
    )


@pytest.mark.slow("starts a server; the gate opens a server with the same setting")
def test_the_command_serves_with_it() -> None:
    environment = {
        **os.environ,
        "HANDRAISE_CHANNELS": "matrix_channel:open_matrix",
        "HANDRAISE_URL": "memory:",
        "HANDRAISE_PORT": "0",
        "MATRIX_URL": "http://127.0.0.1:9",
        "MATRIX_TOKEN": TOKEN,
        "PYTHONPATH": str(EXAMPLE.parent),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "handraise", "serve"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            said = next((line for line in iter(server.stdout.readline, "") if "Listening" in line), None)
        finally:
            server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
    assert said, errors
    assert server.returncode == 0
    assert TOKEN not in errors
