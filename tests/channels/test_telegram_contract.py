"""Telegram keeps the contract of channels, against a stand-in that refuses what Telegram would refuse."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from handraise.channels import Replies
from handraise.channels.telegram import Telegram, open_telegram
from handraise.channels.telegram.api import open_api
from handraise.model.forms import Choice, Form, MultiChoice, Option
from handraise.model.forms import Field as FormField
from handraise.model.json_values import Json
from handraise.model.outcomes import Answered
from handraise.ports.channel import NotSent
from handraise.testing.contract.channel import AT, FORMS, HOSTILE, a_question, settled
from tests.channels.chat_contract import ChatContract
from tests.channels.telegram_peer import BOT_TOKEN, ROOM, SECRET, Fault, TelegramPeer, open_peer

ANN, DEAD = 1_001, 1_009
NOBODY: Any = None


class TestTelegramContract(ChatContract):
    unsafe: ClassVar = ("⟦",)
    """Where Telegram would make a link, a mention or a command of what somebody wrote."""
    answers: ClassVar = [
        (Fault(429, "Too Many Requests: retry after 7", {"retry_after": 7}), True, 7, False),
        (Fault(429, "Too Many Requests", {"retry_after": "soon"}), True, None, False),
        (Fault(429), True, None, False),
        (Fault(401, "Unauthorized"), True, None, False),
        (Fault(404, "Not Found"), True, None, False),
        (Fault(400, "Bad Request: chat not found"), False, None, False),
        (Fault(400, "Bad Request: message can't be edited"), False, None, False),
        (Fault(403, "Forbidden: bot was blocked by the user"), False, None, False),
        (Fault(403, "Forbidden: user is deactivated"), False, None, False),
        (Fault(500, "Internal Server Error"), True, None, True),
        (Fault(502), True, None, True),
        (Fault(200), True, None, True),
    ]
    calls = ("sendMessage", "editMessageText")
    secret = BOT_TOKEN

    def replied_to(self, message: Any) -> object:
        return message.reply_to

    @pytest.fixture
    async def peer(self) -> AsyncIterator[TelegramPeer]:
        async with open_peer() as peer:
            peer.people.add(ANN)
            peer.dead.add(DEAD)
            yield peer

    @pytest.fixture
    async def channel(self, peer: TelegramPeer) -> AsyncIterator[Telegram]:
        async with open_telegram(
            Replies(NOBODY, NOBODY, NOBODY),
            bot_token=BOT_TOKEN,
            base_url="https://desk.example",
            webhook_secret=SECRET,
            api_url=peer.url,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ) as telegram:
            yield telegram

    @pytest.fixture
    def to(self) -> Json:
        return {"chat": ANN}

    @pytest.fixture
    def dead(self) -> Json:
        return {"chat": DEAD}

    async def test_a_change_that_was_made_before_is_made(
        self, channel: Telegram, peer: TelegramPeer, to: Json
    ) -> None:
        question = a_question()
        receipt = await channel.send(self.message(channel, to, question))
        ended = self.message(channel, to, settled(question, Answered(value=True, at=AT, by="ann")))
        for _ in range(2):
            await channel.update(ended, receipt)
        assert [each.edits for each in peer.messages.values()] == [1]

    async def test_a_group_that_has_moved_is_found(self, channel: Telegram, peer: TelegramPeer) -> None:
        peer.moved[-42] = ROOM
        question = a_question()
        receipt = await channel.send(self.message(channel, {"chat": -42}, question))
        ended = settled(question, Answered(value=True, at=AT, by="ann"))
        await channel.update(self.message(channel, {"chat": -42}, ended), receipt)
        [message] = peer.messages.values()
        assert (message.chat, message.edits, message.pressable) == (ROOM, 1, [])

    @pytest.mark.parametrize("link", ["http://localhost:8765/questions/q-1", "http://desk/questions/q-1"])
    async def test_a_link_that_telegram_would_refuse_is_written_out(
        self, channel: Telegram, peer: TelegramPeer, to: Json, link: str
    ) -> None:
        message = self.message(channel, to, a_question())
        [notice] = message.notices
        object.__setattr__(notice, "link", link)
        await channel.send(message)
        assert link in peer.came[0].text

    @pytest.mark.parametrize(
        "form",
        [
            Choice.of(
                *(Option(id=str(n), label=f"{n} " + "🙂" * 250, description="d" * 250) for n in range(40))
            ),
            Choice.of(*(Option(id=str(n), label="\u202e" * 150 + str(n)) for n in range(30))),
            MultiChoice.of(*(Option(id=str(n), label=f"{n} " + "l" * 290) for n in range(40))),
            Form(
                fields=tuple(
                    FormField(name=f"f{n}", form=Choice.of("a", "b"), title="t" * 290) for n in range(40)
                )
            ),
        ],
        ids=["choice", "unseen", "several", "form"],
    )
    async def test_what_is_too_large_for_a_message_is_left_to_the_page(
        self, channel: Telegram, peer: TelegramPeer, to: Json, form: Any
    ) -> None:
        question = a_question(form, prompt="🙂 " + "long " * 3_000, workspace="名" * 60)
        receipt = await channel.send(self.message(channel, to, question))
        assert peer.came[0].pressable == ["Send back…", "Decline…"]
        assert "that is on the page" in peer.came[0].text
        by = "\u202e" * 200
        for answer in ("🙂" * 4_000, HOSTILE * 50):
            ended = settled(question, Answered(value={"other": answer}, at=AT, by=by))
            await channel.update(self.message(channel, to, ended), receipt)

    async def test_more_options_than_a_message_lists_are_written(
        self, channel: Telegram, peer: TelegramPeer, to: Json
    ) -> None:
        await channel.send(self.message(channel, to, a_question(FORMS["many choices"])))
        assert peer.came[0].pressable == ["Answer…", "Send back…", "Decline…"]
        assert "40. Option 39" in peer.came[0].text
        assert "60 more are on the page" in peer.came[0].text

    async def test_many_questions_at_once_fit_into_one_message(
        self, channel: Telegram, peer: TelegramPeer, to: Json
    ) -> None:
        questions = [a_question(id=f"q-{n}", prompt="\u202e🙂" * 400, asker=HOSTILE * 9) for n in range(50)]
        await channel.send(self.message(channel, to, *questions))
        assert "more, in the inbox" in peer.came[0].text


@pytest.mark.parametrize("method", ["getMe", "nothing", "sendMessage"])
@pytest.mark.parametrize("case", ["answered", "refused", "trouble", "gone"])
async def test_the_token_is_in_no_log_and_in_no_error(
    method: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_peer() as peer:
        url = "http://127.0.0.1:9" if case == "gone" else peer.url
        echo = Fault(400, f"Bad Request: /bot{BOT_TOKEN}/{method}")
        peer.fail(method, *{"refused": [echo], "trouble": [Fault(503)]}.get(case, []))
        async with open_api(BOT_TOKEN, url) as api:
            shown = [repr(api), str(vars(type(api)))]
            try:
                await api.call(method, {"chat_id": 7, "text": "x"} if method == "sendMessage" else {})
            except NotSent as error:
                shown += [str(error), repr(error), repr(error.__cause__), repr(error.__context__)]
                # httpx keeps the request in its errors.
                request = getattr(error.__context__, "request", None)
                shown += [] if request is None else [repr(request), str(request.url)]
            else:
                assert (method, case) == ("getMe", "answered")
    peer.refused.clear()
    assert [each for each in (*shown, caplog.text) if BOT_TOKEN.partition(":")[2] in each] == []
    if case != "gone":
        assert f"{peer.url}/{method}" in caplog.text, "nothing was logged, so nothing was shown"


async def test_a_token_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="no token of a bot") as refused:
        async with open_api("not/a/token", "http://127.0.0.1:9"):
            pass
    assert "not/a/token" not in str(refused.value)


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with open_peer() as peer:
        monkeypatch.setenv("http_proxy", peer.url)
        async with open_api(BOT_TOKEN, "http://api.telegram.example") as api:
            assert (await api.call("getMe", {}))["is_bot"] is True
        monkeypatch.setenv("no_proxy", "api.telegram.example")
        async with open_api(BOT_TOKEN, "http://api.telegram.example") as api:
            with pytest.raises(NotSent, match="cannot be reached"):
                await api.call("getMe", {})
